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

	current   atomic.Pointer[conn] // of conns, the one for new streams; nil: none
	callSlots callSlots
	rounds    *pathRounds

	falseNotice atomic.Int64 // when a link last said falsely that nobody is there, in Unix nanoseconds; 0: never

	envelopes *budget.Share // bytes of envelopes that are being received or answered
	replies   *budget.Share // bytes of replies to calls from here that are being read
	streams   *budget.Share // streams of the peer that are being served
	unread    int64         // bytes that unread frames of the peer take; used only by the unread watch

	mu               sync.Mutex     // guards what follows
	greeting         []*conn        // connections whose hello is awaited, the oldest first
	conns            []*conn        // ready connections, in the order in which they became ready
	reportedConns    int            // how many of them the budget knows of
	upAt             time.Time      // when conns was last empty and got its first
	pastBoots        []pastBoot     // superseded boots, the oldest first
	dial             *dial          // the running one; nil: none
	sharedFailure    *dialFailure   // why there is no connection, by the last dial, Disconnect or the peer's refusal; nil if one became ready since, or the next dial is due
	sharedFailureAt  time.Time      // when sharedFailure was last set
	refusesUs        bool           // its last word, with its key proved, was that it does not trust this node
	lastDialFailure  *kinds.Error   // why the last dial that had an address failed; nil: it did not
	lastDialFailedAt time.Time      // when it did
	hostRefusedAddr  string         // UDP address at which the host last reported that nothing listens; "" once a connection became ready
	hostRefusedAt    time.Time      // when it did
	lastAddr         string         // address of the connection in use, as the last event told
	lastPath         Path           // its path
	lastGoodAddr     string         // UDP address where the peer last proved its key; dialled first
	provedAddr       netip.AddrPort // UDP address of the last direct connection that became ready; zero: none since Disconnect
	keep             bool           // reconnect in the background
	backoff          time.Duration  // bounds the pause before the next dial of the background
	retry            pace.Signal    // wakes the reconnecting goroutine; nil: none runs
	events           []Event        // still to be emitted, in their order
	emitting         bool           // a call of emitQueuedEvents passes them on
	uncertified      string         // why the last hello of the peer had no valid certificate
	gone             bool           // another state takes its place: the node has forgotten this one
}

// pastBoot is the boot of an earlier process of the peer, and when a later one superseded it.
type pastBoot struct {
	boot wire.Boot
	at   time.Time
}

// addGreeting adds a connection to those whose hello is awaited. If there are too many it
// closes the oldest, because the hello of that one may never come.
func (state *peerState) addGreeting(c *conn) {
	var oldest *conn
	state.mu.Lock()
	state.node.accounts.greeting.AddUnchecked(state.id, 1)
	state.greeting = append(state.greeting, c)
	if len(state.greeting) > int(budget.Greeting.Peer) {
		oldest = state.greeting[0]
		state.greeting = slices.Delete(state.greeting, 0, 1)
	}
	state.mu.Unlock()
	if oldest != nil {
		state.node.accounts.greeting.Release(state.id, 1)
		state.node.accounts.greeting.CountRefusal(state.id)
		oldest.close(closeOverloaded, "budget: greeting: too many connections at a time")
	}
}

// removeGreeting removes a connection from those whose hello is awaited, if it is still there.
func (state *peerState) removeGreeting(c *conn) {
	state.mu.Lock()
	before := len(state.greeting)
	state.greeting = slices.DeleteFunc(state.greeting, func(o *conn) bool { return o == c })
	removed := before - len(state.greeting)
	state.mu.Unlock()
	state.node.accounts.greeting.Release(state.id, int64(removed))
}

// queueEvent queues an event at the moment when it happens, for emitQueuedEvents: so the
// events of crossing connections keep their order, and no callback runs under the lock.
// Callers hold mu.
func (state *peerState) queueEvent(e Event) {
	e.Peer, e.At = state.id, time.Now()
	state.events = append(state.events, e)
}

// emitQueuedEvents passes on the queued events, unless another call is doing so. Callers do
// not hold mu.
func (state *peerState) emitQueuedEvents() {
	state.mu.Lock()
	defer state.mu.Unlock()
	if state.emitting {
		return // the other call passes on the new ones too
	}
	state.emitting = true
	for len(state.events) > 0 {
		events := state.events
		state.events = nil
		state.mu.Unlock()
		for _, e := range events {
			state.node.emitEvent(e)
		}
		state.mu.Lock()
	}
	state.emitting = false
}

// listConns returns the ready connections, the oldest first.
func (state *peerState) listConns() []*conn {
	state.mu.Lock()
	defer state.mu.Unlock()
	return slices.Clone(state.conns)
}

// reportConnCount tells the budget how many connections there are. Callers hold mu.
func (state *peerState) reportConnCount() {
	state.node.accounts.connections.AddUnchecked(state.id, int64(len(state.conns)-state.reportedConns))
	state.reportedConns = len(state.conns)
}

// removeConn removes a connection that has ended. If it was the last, it reconnects, unless
// the peer is not to be kept or refused this daemon.
func (state *peerState) removeConn(c *conn) {
	state.recordRefusalByPeer(c, c.endCause())
	state.mu.Lock()
	before := len(state.conns)
	state.conns = slices.DeleteFunc(state.conns, func(o *conn) bool { return o == c })
	state.reportConnCount()
	if c.endpoint.path == Direct && !slices.ContainsFunc(state.conns, func(o *conn) bool { return o.endpoint.path == Direct }) {
		state.rounds.noteNoDirect(c.wasLost())
	}
	state.selectCurrentConn()
	down := before > 0 && len(state.conns) == 0
	reconnect := down && state.keep && (state.sharedFailure == nil || !state.sharedFailure.refused)
	if down {
		if time.Since(state.upAt) >= steadyTime {
			state.backoff = 0
		}
		state.queueEvent(Event{Type: EventDown, Name: c.claim, Addr: c.remoteAddr(), Detail: string(c.endpoint.path)})
	}
	state.mu.Unlock()
	state.emitQueuedEvents()
	if reconnect {
		state.ensureReconnecting()
	}
}

const (
	maxExchanges   = 256 // open queries, delegations and discovers to one peer
	spareExchanges = 16  // further ones, for ping and cancel
	maxBulk        = 64  // open streams of mail and HTTP
)

// callSlots counts the streams that calls have open to a peer. A call over their limit fails
// at once and never waits for the peer's credit (protocol, section 6).
type callSlots struct{ exchanges, bulk atomic.Int32 }

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
