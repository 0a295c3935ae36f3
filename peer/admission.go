package peer

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

const (
	maxPastBoots = 16
	cloneMemory  = 10 * time.Minute // for so long a boot that was superseded is a clone
)

// refusedError says why a hello is not accepted, and which event tells of it.
type refusedError struct {
	code   quic.ApplicationErrorCode
	reason string
	event  EventType // "": nothing
}

// endGreeting removes a connection from those whose hello is awaited.
func (s *peerState) endGreeting(c *conn) {
	s.mu.Lock()
	before := len(s.greeting)
	s.greeting = slices.DeleteFunc(s.greeting, func(o *conn) bool { return o == c })
	left := before - len(s.greeting)
	s.mu.Unlock()
	s.node.rows.greeting.Give(s.id, int64(left))
}

// admit makes a connection ready, or says why not; nothing else does. The hello is in
// and the key proven. Trust is decided under the lock that Disconnect takes: so an
// untrust either is seen here or sees the connection.
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
	var surplus *conn
	if refused == nil {
		surplus = s.chooseSurplus()
	}
	s.mu.Unlock()

	for _, old := range closing {
		old.close(closeReplaced, "replaced by a newer connection")
	}
	if surplus != nil {
		surplus.sendGoaway(closeReplaced)
	}
	s.emitQueued()
	return refused
}

// noteProved notes where the peer proved its key, or, with the zero value, that it is
// not trusted any more. Callers hold mu.
func (s *peerState) noteProved(at netip.AddrPort) {
	if at != s.provedFrom {
		s.node.handshakes.rememberProved(s.id, s.provedFrom, at)
		s.provedFrom = at
	}
}

// checkHello decides whether the peer is trusted, shows the pinned post-quantum half, and
// is no clone. Nil: the hello is accepted. Callers hold mu.
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

// noteRefusal notes why a connection ended, if the peer refused it. That may come after
// the peer's hello, when the connection is ready here: it counts like a failed dial.
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

// refuseHello closes a connection whose hello is not accepted. Before that a stranger
// becomes pending, unless its key is blocked or was trusted meanwhile.
func (c *conn) refuseHello(r *refusedError) {
	who := c.id
	if c.peer == nil {
		who = budget.Strangers
	}
	c.node.lines.Add(who, slog.LevelInfo, "peer refused", "peer", c.id.Label(), "addr", c.addr(), "reason", r.reason)
	switch r.event {
	case EventIdentityConflict:
		c.node.lines.Tell(who, func(left uint64) {
			c.node.emitEvent(Event{Type: r.event, Peer: c.id, Name: c.claim, Addr: c.addr(), Detail: r.reason + alike(left)})
		})
	case EventPending:
		p := Pending{ID: c.id, Claim: c.claim, Addr: c.addr(), PQ: c.pq, At: time.Now()}
		if c.node.isUndecided(c.id) && c.node.pending.add(p, c.qc.RemoteAddr()) {
			c.node.lines.Tell(who, func(left uint64) {
				c.node.emitEvent(Event{Type: r.event, Peer: c.id, Name: c.claim, Addr: c.addr(), Detail: strings.TrimPrefix(alike(left), "; ")})
			})
		}
	}
	c.close(r.code, r.reason)
}

// alike returns the note on an event that says how many like it were left out before.
func alike(left uint64) string {
	if left < 2 {
		return ""
	}
	return fmt.Sprintf("; %d more like it in the last minute", left-1)
}

// checkPQ compares the post-quantum half in hello with what was pinned
// (protocol, section 7).
func (c *conn) checkPQ(p identity.Peer) *refusedError {
	switch {
	case c.pq.IsZero() && c.node.cfg.RequirePQ:
		return &refusedError{closeNotTrusted, "a post-quantum identity is required here", EventIdentityConflict}
	case p.PQ.IsZero() || p.PQ == c.pq:
		return nil
	case c.pq.IsZero():
		return &refusedError{closeNotTrusted, "the post-quantum half of the identity is missing", EventIdentityConflict}
	}
	return &refusedError{closeNotTrusted, "the post-quantum half of the identity is another one", EventIdentityConflict}
}

// pinPQ pins the post-quantum half that an accepted peer showed, if none is pinned. If
// two connections at once show different ones, the first pins.
func (c *conn) pinPQ() *refusedError {
	if p, _ := c.node.cfg.Trust.Get(c.id); !p.PQ.IsZero() || c.pq.IsZero() {
		return c.checkPQ(p)
	}
	if err := c.node.cfg.Trust.Pin(c.id, c.pq); err != nil {
		c.node.lines.Add(c.id, slog.LevelError, "pin the post-quantum key", "peer", c.id.Label(), "err", err)
	}
	p, _ := c.node.cfg.Trust.Get(c.id)
	return c.checkPQ(p)
}
