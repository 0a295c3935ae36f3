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

// endGreeting is told that a connection's hello is awaited no more.
func (s *peerState) endGreeting(c *conn) {
	s.mu.Lock()
	before := len(s.greeting)
	s.greeting = slices.DeleteFunc(s.greeting, func(o *conn) bool { return o == c })
	left := before - len(s.greeting)
	s.mu.Unlock()
	s.node.rows.greeting.Give(s.id, int64(left))
}

// admit is the one place that makes a connection ready. The hello is in and the
// key proven; whether the peer is trusted is decided under the lock that
// Disconnect takes, so an untrust either is seen here or sees the connection.
func (s *peerState) admit(c *conn) (refused *refusedError) {
	var closing []*conn
	s.mu.Lock()
	refused = s.checkHello(c)
	if refused == nil {
		if len(s.conns) == 0 {
			s.upAt = time.Now()
			s.queueEvent(Event{Type: EventUp, Name: c.claim, Addr: c.addr()})
		} else if s.lastGoodAddr != c.addr() {
			s.queueEvent(Event{Type: EventMoved, Name: c.claim, Addr: c.addr()})
		}
		closing = s.dropSuperseded(c)
		s.conns = append(s.conns, c)
		if len(s.conns) > int(budget.Connections.Peer) {
			s.node.rows.connections.Refuse(s.id)
			closing = append(closing, s.conns[0])
			s.conns = slices.Delete(s.conns, 0, 1)
		}
		s.countConns()
		s.lastGoodAddr = c.addr()
		s.noteProved(addrPortOf(c.qc.RemoteAddr()))
		s.chooseCurrent()
		s.settleDial(nil)
		close(c.ready)
	}
	var victim *conn
	if n := len(s.conns); refused == nil && n > 1 && s.node.self.Compare(s.id) < 0 {
		victim = s.conns[n-2]
	}
	s.mu.Unlock()

	for _, old := range closing {
		old.close(closeReplaced, "replaced by a newer connection")
	}
	if victim != nil {
		victim.sendGoaway(closeReplaced)
	}
	s.emitQueued()
	return refused
}

// noteProved notes where the peer proved its key; the zero value: it is not trusted any
// more. Callers hold mu.
func (s *peerState) noteProved(at netip.AddrPort) {
	if at != s.provedFrom {
		s.node.handshakes.rememberProved(s.id, s.provedFrom, at)
		s.provedFrom = at
	}
}

// checkHello decides on trust, the post-quantum pin and clones. Callers hold mu.
func (s *peerState) checkHello(c *conn) *refusedError {
	if s.node.isClosing() {
		return &refusedError{closeShutdown, "shutting down", ""}
	}
	p, trusted := s.node.cfg.Trust.Get(s.id)
	if !trusted {
		return &refusedError{closeNotTrusted, "not trusted", EventPending}
	}
	if err := c.checkPQ(p); err != nil {
		return err
	}
	now := time.Now()
	s.past = slices.DeleteFunc(s.past, func(p pastBoot) bool { return now.Sub(p.at) > cloneMemory })
	if slices.ContainsFunc(s.past, func(p pastBoot) bool { return p.boot == c.hello.Boot }) {
		return &refusedError{closeIdentityConflict, "another process shows the same key", EventIdentityConflict}
	}
	return nil
}

// noteRefusal is told that a connection ended. A refusal may come after the peer's
// hello, from where on the connection was ready here: it counts like one of a dial.
func (s *peerState) noteRefusal(c *conn) {
	f := s.node.dialFailure(s.id, c.addr(), c.endCause())
	if f.Code != kinds.NotTrusted && f.Code != kinds.IdentityConflict {
		return
	}
	s.mu.Lock()
	if s.dial == nil && !slices.ContainsFunc(s.conns, func(o *conn) bool { return o != c }) {
		s.settleDial(f)
	}
	s.mu.Unlock()
	s.emitQueued()
}

const (
	maxExchanges = 256 // queries, delegations, discovers
	spare        = 16  // more for ping and cancel
	maxBulk      = 64  // mail and HTTP
)
