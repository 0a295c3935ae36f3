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

	current     atomic.Pointer[conn] // of conns the newest without a goaway; nil: none
	openStreams openStreams

	envelopes *budget.Share // bytes of those that are being received or answered
	replies   *budget.Share // bytes of those to calls from here that are being read
	streams   *budget.Share // that are served
	unread    int64         // bytes that its frames take which nobody has read; the watch's alone

	mu           sync.Mutex // guards what follows
	greeting     []*conn    // whose hello is awaited, in the order in which they came
	conns        []*conn    // ready, in the order in which they became so
	counted      int        // of them, by the budget
	upAt         time.Time  // when the first of them did
	past         []pastBoot // boots that were superseded, the oldest first
	dial         *dial      // running, or nil
	verdict      *failure   // of the last dial; nil: a connection became ready since
	verdictAt    time.Time
	lastFailure  *kinds.Error   // why the last dial that had an address failed; nil: it did not
	lastGoodAddr string         // address where it last proved its key
	provedFrom   netip.AddrPort // the same, of the last connection that became ready
	keep         bool           // reconnect in the background
	backoff      time.Duration  // bounds the pause before the next dial of the background
	retry        pace.Signal    // wakes the reconnecting goroutine; nil: none runs
	events       []Event        // still to be told, in their order
	telling      bool           // a call passes them on
}

type pastBoot struct {
	boot wire.Boot
	at   time.Time
}

// beginGreeting adds a connection to those whose hello is awaited. If there are too many
// it closes the oldest, on which nothing may ever come.
func (s *peerState) beginGreeting(c *conn) {
	var oldest *conn
	s.mu.Lock()
	s.node.rows.greeting.Add(s.id, 1)
	s.greeting = append(s.greeting, c)
	if len(s.greeting) > int(budget.Greeting.Peer) {
		oldest = s.greeting[0]
		s.greeting = slices.Delete(s.greeting, 0, 1)
	}
	s.mu.Unlock()
	if oldest != nil {
		s.node.rows.greeting.Give(s.id, 1)
		s.node.rows.greeting.Refuse(s.id)
		oldest.close(closeOverloaded, "budget: greeting: too many connections at a time")
	}
}

// queueEvent queues an event at the moment when it happens; emitQueued passes on what is
// queued. So the events of crossing connections keep their order, and no callback runs
// under the lock. Callers of queueEvent hold mu, callers of emitQueued do not.
func (s *peerState) queueEvent(e Event) {
	e.Peer, e.At = s.id, time.Now()
	s.events = append(s.events, e)
}

func (s *peerState) emitQueued() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.telling {
		return // the other call passes on the new ones too
	}
	s.telling = true
	for len(s.events) > 0 {
		events := s.events
		s.events = nil
		s.mu.Unlock()
		for _, e := range events {
			s.node.emitEvent(e)
		}
		s.mu.Lock()
	}
	s.telling = false
}

// countConns tells the budget how many connections there are. Callers hold mu.
func (s *peerState) countConns() {
	s.node.rows.connections.Add(s.id, int64(len(s.conns)-s.counted))
	s.counted = len(s.conns)
}

// removeConn removes a connection that has ended, and reconnects if it was the last.
func (s *peerState) removeConn(c *conn) {
	s.noteRefusal(c)
	s.mu.Lock()
	before := len(s.conns)
	s.conns = slices.DeleteFunc(s.conns, func(o *conn) bool { return o == c })
	s.countConns()
	s.chooseCurrent()
	down := before > 0 && len(s.conns) == 0
	keep := down && s.keep && (s.verdict == nil || !s.verdict.refused)
	if down {
		if time.Since(s.upAt) >= steadyTime {
			s.backoff = 0
		}
		s.queueEvent(Event{Type: EventDown, Name: c.claim, Addr: c.addr()})
	}
	s.mu.Unlock()
	s.emitQueued()
	if keep {
		s.ensureReconnecting()
	}
}

const (
	maxExchanges = 256 // queries, delegations, discovers
	spare        = 16  // more for ping and cancel
	maxBulk      = 64  // mail and HTTP
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
