package peer

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

const (
	maxPastBoots      = 16               // remembered of one peer; more drop the oldest
	supersededBootTTL = 10 * time.Minute // how long a hello with a superseded boot is taken for a clone of the key
)

// helloRefusal says why a hello is refused.
type helloRefusal struct {
	code   quic.ApplicationErrorCode
	reason string
	event  EventType // that tells the owner of it; "": none does
}

// admitConn makes c, whose hello is in, ready and returns nil, or returns why the hello is
// refused; the caller then calls refuseHello. No other function makes a connection ready. (A
// stranger who dials in is refused before, in accept.go.)
//
// Trust is decided under the lock that Disconnect takes, so no connection stays ready after
// its peer was untrusted: either admitConn sees the untrust, or Disconnect finds the
// connection.
func (s *peerState) admitConn(c *conn) (refusal *helloRefusal) {
	var closing []*conn
	var surplus *conn
	s.mu.Lock()
	refusal = s.checkHello(c)
	if refusal == nil {
		if len(s.conns) == 0 {
			s.upAt = time.Now()
			s.queueEvent(Event{Type: EventUp, Name: c.claim, Addr: c.remoteAddr()})
		} else if s.lastGoodAddr != c.remoteAddr() {
			s.queueEvent(Event{Type: EventMoved, Name: c.claim, Addr: c.remoteAddr()})
		}
		closing = s.removeSupersededConns(c)
		s.conns = append(s.conns, c)
		if len(s.conns) > int(budget.Connections.Peer) {
			s.node.rows.connections.CountRefusal(s.id)
			closing = append(closing, s.conns[0])
			s.conns = slices.Delete(s.conns, 0, 1)
		}
		s.reportConnCount()
		s.lastGoodAddr = c.remoteAddr()
		s.setProvedAddr(toAddrPort(c.qc.RemoteAddr()))
		s.selectCurrentConn()
		s.finishDial(nil)
		close(c.ready)
		surplus = s.findSurplusConn()
	}
	s.mu.Unlock()

	for _, old := range closing {
		old.close(closeReplaced, "replaced by a newer connection")
	}
	if surplus != nil {
		surplus.sendGoaway(closeReplaced)
	}
	s.emitQueuedEvents()
	return refusal
}

// setProvedAddr remembers the address at which the peer last proved its key. The zero value
// forgets it, for Disconnect. Callers hold mu.
func (s *peerState) setProvedAddr(at netip.AddrPort) {
	if at != s.provedAddr {
		s.node.handshakes.replaceProvedAddr(s.id, s.provedAddr, at)
		s.provedAddr = at
	}
}

// checkHello returns a refusal if the node is closing, the peer is not trusted, it does not
// show the pinned post-quantum key, or it is a clone; else nil. Callers hold mu. A stranger that
// dials in is refused before, in acceptStranger.
func (s *peerState) checkHello(c *conn) *helloRefusal {
	if s.node.isClosing() {
		return &helloRefusal{code: closeShutdown, reason: "shutting down"}
	}
	p, trusted := s.node.cfg.Trust.Get(s.id)
	if !trusted {
		return &helloRefusal{code: closeNotTrusted, reason: "not trusted", event: EventPending}
	}
	if refusal := c.checkPQ(p); refusal != nil {
		return refusal
	}
	now := time.Now()
	s.pastBoots = slices.DeleteFunc(s.pastBoots, func(past pastBoot) bool { return now.Sub(past.at) > supersededBootTTL })
	if slices.ContainsFunc(s.pastBoots, func(past pastBoot) bool { return past.boot == c.peerHello.Boot }) {
		return &helloRefusal{code: closeIdentityConflict, reason: "another process shows the same key", event: EventIdentityConflict}
	}
	return nil
}

// recordRefusalByPeer records that the peer refused this daemon, if that ended c. The peer can
// refuse after c became ready here. It has no effect while a dial or another connection is
// there.
func (s *peerState) recordRefusalByPeer(c *conn) {
	f := s.node.toDialFailure(s.id, c.remoteAddr(), c.endCause())
	if f.Code != kinds.NotTrusted && f.Code != kinds.IdentityConflict {
		return
	}
	s.mu.Lock()
	if s.dial == nil && !slices.ContainsFunc(s.conns, func(o *conn) bool { return o != c }) {
		s.finishDial(f)
	}
	s.mu.Unlock()
	s.emitQueuedEvents()
}

// refuseHello logs the refusal, tells the owner of it, and closes the connection. A stranger
// becomes pending first, unless its key is blocked or was trusted meanwhile.
func (c *conn) refuseHello(refusal *helloRefusal) {
	who := c.id
	if c.peer == nil {
		who = budget.Strangers
	}
	c.node.lines.WriteLimited(who, slog.LevelInfo, "peer refused", "peer", c.id.Label(), "addr", c.remoteAddr(), "reason", refusal.reason)
	switch refusal.event {
	case EventIdentityConflict:
		c.node.lines.NotifyLimited(who, func(suppressed uint64) {
			detail := refusal.reason
			if note := describeOmitted(suppressed); note != "" {
				detail += "; " + note
			}
			c.node.emitEvent(Event{Type: refusal.event, Peer: c.id, Name: c.claim, Addr: c.remoteAddr(), Detail: detail})
		})
	case EventPending:
		p := Pending{ID: c.id, Claim: c.claim, Addr: c.remoteAddr(), PQ: c.peerPQ, At: time.Now()}
		if c.node.isUndecidedKey(c.id) && c.node.pending.add(p, c.qc.RemoteAddr()) {
			c.node.lines.NotifyLimited(who, func(suppressed uint64) {
				c.node.emitEvent(Event{Type: refusal.event, Peer: c.id, Name: c.claim, Addr: c.remoteAddr(), Detail: describeOmitted(suppressed)})
			})
		}
	}
	c.close(refusal.code, refusal.reason)
}

// describeOmitted returns the note on the last of the events that were suppressed in a minute,
// which stands for all of them: how many others were left out. It is "" if none was.
func describeOmitted(suppressed uint64) string {
	if suppressed < 2 {
		return ""
	}
	return fmt.Sprintf("%d more like it in the last minute", suppressed-1)
}

// checkPQ returns a refusal if the peer showed another post-quantum key than is pinned in p,
// or none where one is pinned or required; else nil (protocol, section 7).
func (c *conn) checkPQ(p identity.Peer) *helloRefusal {
	switch {
	case c.peerPQ.IsZero() && c.node.cfg.RequirePQ:
		return &helloRefusal{code: closeNotTrusted, reason: "a post-quantum identity is required here", event: EventIdentityConflict}
	case p.PQ.IsZero() || p.PQ == c.peerPQ:
		return nil
	case c.peerPQ.IsZero():
		return &helloRefusal{code: closeNotTrusted, reason: "the post-quantum half of the identity is missing", event: EventIdentityConflict}
	}
	return &helloRefusal{code: closeNotTrusted, reason: "the post-quantum half of the identity is another one", event: EventIdentityConflict}
}

// pinPQ pins the post-quantum key that an accepted peer showed, if none is pinned. It returns
// a refusal if another was pinned meanwhile. If pinning fails and nothing is pinned, it logs
// that and the connection stays.
func (c *conn) pinPQ() *helloRefusal {
	if p, _ := c.node.cfg.Trust.Get(c.id); !p.PQ.IsZero() || c.peerPQ.IsZero() {
		return c.checkPQ(p)
	}
	if err := c.node.cfg.Trust.PinPQ(c.id, c.peerPQ); err != nil {
		c.node.lines.WriteLimited(c.id, slog.LevelError, "pin the post-quantum key", "peer", c.id.Label(), "err", err)
	}
	p, _ := c.node.cfg.Trust.Get(c.id)
	return c.checkPQ(p)
}
