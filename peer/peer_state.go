package peer

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// peerState holds what a node knows of one peer, connected or not, and its connections
// to it.
type peerState struct {
	node *Node
	id   identity.ID

	current     atomic.Pointer[conn] // the newest of conns that takes new streams; nil: none
	openStreams openStreams

	envelopes *budget.Share // bytes of envelopes that are being received or answered
	replies   *budget.Share // bytes of replies to calls from here that are being read
	streams   *budget.Share // streams of the peer that are being served
	unread    int64         // bytes that unread frames of the peer take; used by the unread watch alone

	mu            sync.Mutex     // guards what follows
	greeting      []*conn        // connections whose hello is awaited, the oldest first
	conns         []*conn        // ready connections, in the order in which they became ready
	reportedConns int            // how many of them the budget knows of
	upAt          time.Time      // when conns was last empty and got its first
	pastBoots     []pastBoot     // superseded boots, the oldest first
	dial          *dial          // the running one; nil: none
	verdict       *dialFailure   // why the last dial failed; nil: a connection became ready since, or the next dial is due
	verdictAt     time.Time      // when verdict was last set
	lastFailure   *kinds.Error   // why the last dial that had an address failed; nil: it did not
	lastGoodAddr  string         // address where the peer last proved its key; dialled first
	provedAddr    netip.AddrPort // address of the last connection that became ready; zero: none since Disconnect
	keep          bool           // reconnect in the background
	backoff       time.Duration  // bounds the pause before the next dial of the background
	retry         pace.Signal    // wakes the reconnecting goroutine; nil: none runs
	events        []Event        // still to be emitted, in their order
	emitting      bool           // a call of emitQueuedEvents passes them on
}

// pastBoot is the boot of an earlier process of the peer, and when a later one superseded it.
type pastBoot struct {
	boot wire.Boot
	at   time.Time
}

// addGreeting adds a connection to those whose hello is awaited. If there are too many it
// closes the oldest, because the hello of that one may never come.
func (s *peerState) addGreeting(c *conn) {
	var oldest *conn
	s.mu.Lock()
	s.node.rows.greeting.AddUnchecked(s.id, 1)
	s.greeting = append(s.greeting, c)
	if len(s.greeting) > int(budget.Greeting.Peer) {
		oldest = s.greeting[0]
		s.greeting = slices.Delete(s.greeting, 0, 1)
	}
	s.mu.Unlock()
	if oldest != nil {
		s.node.rows.greeting.Release(s.id, 1)
		s.node.rows.greeting.CountRefusal(s.id)
		oldest.close(closeOverloaded, "budget: greeting: too many connections at a time")
	}
}

// removeGreeting removes a connection from those whose hello is awaited, if it is still there.
func (s *peerState) removeGreeting(c *conn) {
	s.mu.Lock()
	before := len(s.greeting)
	s.greeting = slices.DeleteFunc(s.greeting, func(o *conn) bool { return o == c })
	removed := before - len(s.greeting)
	s.mu.Unlock()
	s.node.rows.greeting.Release(s.id, int64(removed))
}

// queueEvent queues an event at the moment when it happens, for emitQueuedEvents: so the
// events of crossing connections keep their order, and no callback runs under the lock.
// Callers hold mu.
func (s *peerState) queueEvent(e Event) {
	e.Peer, e.At = s.id, time.Now()
	s.events = append(s.events, e)
}

// emitQueuedEvents passes on the queued events, unless another call is doing so. Callers do
// not hold mu.
func (s *peerState) emitQueuedEvents() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.emitting {
		return // the other call passes on the new ones too
	}
	s.emitting = true
	for len(s.events) > 0 {
		events := s.events
		s.events = nil
		s.mu.Unlock()
		for _, e := range events {
			s.node.emitEvent(e)
		}
		s.mu.Lock()
	}
	s.emitting = false
}

// listConns returns the ready connections, the oldest first.
func (s *peerState) listConns() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.conns)
}

// reportConnCount tells the budget how many connections there are. Callers hold mu.
func (s *peerState) reportConnCount() {
	s.node.rows.connections.AddUnchecked(s.id, int64(len(s.conns)-s.reportedConns))
	s.reportedConns = len(s.conns)
}

// removeConn removes a connection that has ended. If it was the last, it reconnects, unless
// the peer is not to be kept or refused this daemon.
func (s *peerState) removeConn(c *conn) {
	s.recordRefusalByPeer(c)
	s.mu.Lock()
	before := len(s.conns)
	s.conns = slices.DeleteFunc(s.conns, func(o *conn) bool { return o == c })
	s.reportConnCount()
	s.selectCurrentConn()
	down := before > 0 && len(s.conns) == 0
	reconnect := down && s.keep && (s.verdict == nil || !s.verdict.refused)
	if down {
		if time.Since(s.upAt) >= steadyTime {
			s.backoff = 0
		}
		s.queueEvent(Event{Type: EventDown, Name: c.claim, Addr: c.remoteAddr()})
	}
	s.mu.Unlock()
	s.emitQueuedEvents()
	if reconnect {
		s.ensureReconnecting()
	}
}

const (
	maxExchanges   = 256 // open queries, delegations and discovers to one peer
	spareExchanges = 16  // further ones, for ping and cancel
	maxBulk        = 64  // open streams of mail and HTTP
)

// openStreams counts the streams that are open to a peer. A call over their limit fails
// at once and never waits for the peer's credit (protocol, section 6).
type openStreams struct{ exchanges, bulk atomic.Int32 }

// incrementBelow adds one to counter and reports true, unless it has reached limit.
func incrementBelow(counter *atomic.Int32, limit int32) bool {
	for {
		n := counter.Load()
		if n >= limit {
			return false
		}
		if counter.CompareAndSwap(n, n+1) {
			return true
		}
	}
}
