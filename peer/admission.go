package peer

import (
	"net/netip"
	"slices"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/kinds"
)

const (
	maxPastBoots  = 16
	cloneMemory   = 10 * time.Minute
	cloneWait     = 30 * time.Second
	refusalPause  = 100 * time.Millisecond // before a peer that did not trust this node is dialled again
	shareVerdict  = time.Second
	refusedMemory = 100 * time.Millisecond
)

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

// proved notes where the peer proved its key; the zero value: it is not trusted any
// more. Callers hold mu.
func (r *remote) proved(at netip.AddrPort) {
	if at != r.provedAt {
		r.node.handshakes.remember(r.id, r.provedAt, at)
		r.provedAt = at
	}
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

const (
	maxExchanges = 256 // queries, delegations, discovers
	spare        = 16  // more for ping and cancel
	maxBulk      = 64  // mail and HTTP
)
