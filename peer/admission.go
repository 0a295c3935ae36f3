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

const (
	maxPastBoots  = 16
	cloneMemory   = 10 * time.Minute
	cloneWait     = 30 * time.Second
	refusalPause  = 100 * time.Millisecond // before a peer that did not trust this node is dialled again
	shareVerdict  = time.Second
	refusedMemory = 100 * time.Millisecond
)

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

// leaveGreeting is told that a connection's hello is awaited no more.
func (r *remote) leaveGreeting(c *conn) {
	r.mu.Lock()
	before := len(r.greeting)
	r.greeting = slices.DeleteFunc(r.greeting, func(o *conn) bool { return o == c })
	left := before - len(r.greeting)
	r.mu.Unlock()
	r.node.rows.greeting.Give(r.id, int64(left))
}

// admit is the one place that makes a connection ready. The hello is in and the
// key proven; whether the peer is trusted is decided under the lock that
// Disconnect takes, so an untrust either is seen here or sees the connection.
func (r *remote) admit(c *conn) (refused *refusedError) {
	var closing []*conn
	r.mu.Lock()
	refused = r.check(c)
	if refused == nil {
		if len(r.conns) == 0 {
			r.upAt = time.Now()
			r.note(Event{Type: EventUp, Name: c.claim, Addr: c.addr()})
		} else if r.lastGood != c.addr() {
			r.note(Event{Type: EventMoved, Name: c.claim, Addr: c.addr()})
		}
		closing = r.supersede(c)
		r.conns = append(r.conns, c)
		if len(r.conns) > int(budget.Connections.Peer) {
			r.node.rows.connections.Refuse(r.id)
			closing = append(closing, r.conns[0])
			r.conns = slices.Delete(r.conns, 0, 1)
		}
		r.countConns()
		r.lastGood = c.addr()
		r.proved(addrPort(c.qc.RemoteAddr()))
		r.choose()
		r.settle(nil)
		close(c.ready)
	}
	var victim *conn
	if n := len(r.conns); refused == nil && n > 1 && r.node.self.Compare(r.id) < 0 {
		victim = r.conns[n-2]
	}
	r.mu.Unlock()

	for _, old := range closing {
		old.close(closeReplaced, "replaced by a newer connection")
	}
	if victim != nil {
		victim.goaway(closeReplaced)
	}
	r.tell()
	return refused
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

// proved notes where the peer proved its key; the zero value: it is not trusted any
// more. Callers hold mu.
func (r *remote) proved(at netip.AddrPort) {
	if at != r.provedAt {
		r.node.handshakes.remember(r.id, r.provedAt, at)
		r.provedAt = at
	}
}

// countConns tells the budget how many connections there are. Callers hold mu.
func (r *remote) countConns() {
	r.node.rows.connections.Add(r.id, int64(len(r.conns)-r.counted))
	r.counted = len(r.conns)
}

// check decides on trust, the post-quantum pin and clones. Callers hold mu.
func (r *remote) check(c *conn) *refusedError {
	if r.node.isClosing() {
		return &refusedError{closeShutdown, "shutting down", ""}
	}
	p, trusted := r.node.cfg.Trust.Get(r.id)
	if !trusted {
		return &refusedError{closeNotTrusted, "not trusted", EventPending}
	}
	if err := c.checkPQ(p); err != nil {
		return err
	}
	now := time.Now()
	r.past = slices.DeleteFunc(r.past, func(p pastBoot) bool { return now.Sub(p.at) > cloneMemory })
	if slices.ContainsFunc(r.past, func(p pastBoot) bool { return p.boot == c.hello.Boot }) {
		return &refusedError{closeIdentityConflict, "another process shows the same key", EventIdentityConflict}
	}
	return nil
}

// supersede takes out the connections of an earlier process of the peer and
// remembers its boot. Callers hold mu and close what is returned.
func (r *remote) supersede(c *conn) (old []*conn) {
	r.conns = slices.DeleteFunc(r.conns, func(o *conn) bool {
		if o.hello.Boot == c.hello.Boot {
			return false
		}
		if !slices.ContainsFunc(r.past, func(p pastBoot) bool { return p.boot == o.hello.Boot }) {
			if len(r.past) >= maxPastBoots {
				r.past = slices.Delete(r.past, 0, 1)
			}
			r.past = append(r.past, pastBoot{o.hello.Boot, time.Now()})
		}
		old = append(old, o)
		return true
	})
	return old
}

// choose sets current. Callers hold mu.
func (r *remote) choose() {
	for _, c := range slices.Backward(r.conns) {
		if !c.leaving.Load() {
			r.current.Store(c)
			return
		}
	}
	r.current.Store(nil)
}

// leave is told that a connection takes no new streams.
func (r *remote) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.choose()
}

// noteRefusal is told that a connection ended. A refusal may come after the peer's
// hello, from where on the connection was ready here: it counts like one of a dial.
func (r *remote) noteRefusal(c *conn) {
	f := r.node.failed(r.id, c.addr(), c.endedWith())
	if f.Code != kinds.NotTrusted && f.Code != kinds.IdentityConflict {
		return
	}
	r.mu.Lock()
	if r.dial == nil && !slices.ContainsFunc(r.conns, func(o *conn) bool { return o != c }) {
		r.settle(f)
	}
	r.mu.Unlock()
	r.tell()
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

// Connect keeps a connection to a trusted peer: it dials now, and again whenever
// the last connection ends. Call it too when a new address is known.
func (n *Node) Connect(id identity.ID) {
	r := n.remote(id)
	p, waited := n.pending.take(id)
	r.mu.Lock()
	r.keep = true
	r.verdict = nil
	r.backoff = 0
	if waited && r.lastGood == "" {
		r.lastGood = p.Addr
	}
	r.mu.Unlock()
	r.reconnect()
}

// Disconnect closes every connection to a peer at once and keeps none. Call it
// after the trust store has been told: the peer hears what stands there.
func (n *Node) Disconnect(id identity.ID) {
	n.pending.take(id)
	n.mu.RLock()
	r := n.remotes[id]
	n.mu.RUnlock()
	if r == nil {
		return
	}
	code, reason, verdict := closeNotTrusted, "not trusted any more", n.unknown(id)
	if _, trusted := n.cfg.Trust.Get(id); trusted {
		code, reason, verdict = closeShutdown, "disconnected", n.unreachable(id, kinds.DeliveredNo, "it was disconnected; try again")
	}
	r.mu.Lock()
	r.keep = false
	r.lastGood, r.failed = "", nil
	r.proved(netip.AddrPort{})
	conns := slices.Clone(r.conns)
	r.settle(&failure{Error: verdict})
	r.mu.Unlock()
	for _, c := range conns {
		c.close(code, reason)
	}
}

// opened is how many streams may be open to a peer, so that a call over it fails
// at once and never waits for the peer's credit (protocol, section 6).
type opened struct{ exchanges, bulk atomic.Int32 }

const (
	maxExchanges = 256 // queries, delegations, discovers
	spare        = 16  // more for ping and cancel
	maxBulk      = 64  // mail and HTTP
)

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
