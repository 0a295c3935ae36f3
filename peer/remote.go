package peer

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// remote is what a node keeps for one peer, connected or not.
type remote struct {
	node *Node
	id   identity.ID

	current atomic.Pointer[conn] // of conns the newest without a goaway; nil: none
	opened  opened

	envelopes *budget.Share // bytes of those that are being received or answered
	replies   *budget.Share // bytes of those to calls from here that are being read
	streams   *budget.Share // that are served
	unread    int64         // bytes that its frames take which nobody has read; the watch's alone

	mu        sync.Mutex // guards what follows
	greeting  []*conn    // whose hello is awaited, in the order in which they came
	conns     []*conn    // ready, in the order in which they became so
	counted   int        // of them, by the budget
	upAt      time.Time  // when the first of them did
	past      []pastBoot // boots that were superseded, the oldest first
	dial      *dial      // running, or nil
	verdict   *failure   // of the last dial; nil: a connection became ready since
	verdictAt time.Time
	failed    *kinds.Error   // why the last dial that had an address failed; nil: it did not
	lastGood  string         // address where it last proved its key
	provedAt  netip.AddrPort // the same, of the last connection that became ready
	keep      bool           // reconnect in the background
	backoff   time.Duration  // bounds the pause before the next dial of the background
	retry     chan struct{}  // wakes the reconnecting goroutine; nil: none runs
	events    []Event        // still to be told, in their order
	telling   bool           // somebody is telling them
}

type pastBoot struct {
	boot wire.Boot
	at   time.Time
}

// enter is told of a connection whose hello is awaited. Of too many the oldest is
// closed: it may be one on which nothing will come.
func (r *remote) enter(c *conn) {
	var oldest *conn
	r.mu.Lock()
	r.node.rows.greeting.Add(r.id, 1)
	r.greeting = append(r.greeting, c)
	if len(r.greeting) > int(budget.Greeting.Peer) {
		oldest = r.greeting[0]
		r.greeting = slices.Delete(r.greeting, 0, 1)
	}
	r.mu.Unlock()
	if oldest != nil {
		r.node.rows.greeting.Give(r.id, 1)
		r.node.rows.greeting.Refuse(r.id)
		oldest.close(closeOverloaded, "budget: greeting: too many connections at a time")
	}
}

// note queues an event at the moment in which it happens; tell passes on what is
// queued. So up and down of crossing connections come in their order, though
// nobody is told under the lock. Callers of note hold mu, those of tell do not.
func (r *remote) note(e Event) {
	e.Peer, e.At = r.id, time.Now()
	r.events = append(r.events, e)
}

func (r *remote) tell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.telling {
		return // who tells sees the new ones too
	}
	r.telling = true
	for len(r.events) > 0 {
		events := r.events
		r.events = nil
		r.mu.Unlock()
		for _, e := range events {
			r.node.emit(e)
		}
		r.mu.Lock()
	}
	r.telling = false
}

// countConns tells the budget how many connections there are. Callers hold mu.
func (r *remote) countConns() {
	r.node.rows.connections.Add(r.id, int64(len(r.conns)-r.counted))
	r.counted = len(r.conns)
}

// remove is told that a connection ended.
func (r *remote) remove(c *conn) {
	r.noteRefusal(c)
	r.mu.Lock()
	before := len(r.conns)
	r.conns = slices.DeleteFunc(r.conns, func(o *conn) bool { return o == c })
	r.countConns()
	r.choose()
	down := before > 0 && len(r.conns) == 0
	keep := down && r.keep && (r.verdict == nil || !r.verdict.refused)
	if down {
		if time.Since(r.upAt) >= steadyTime {
			r.backoff = 0
		}
		r.note(Event{Type: EventDown, Name: c.claim, Addr: c.addr()})
	}
	r.mu.Unlock()
	r.tell()
	if keep {
		r.reconnect()
	}
}

// opened is how many streams may be open to a peer, so that a call over it fails
// at once and never waits for the peer's credit (protocol, section 6).
type opened struct{ exchanges, bulk atomic.Int32 }

func take(counter *atomic.Int32, limit int32) bool {
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
