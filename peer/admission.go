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

// newNoRoomRefusal returns the refusal of a peer whose certificate is valid, but for which there is no room among
// the certified peers. It may try again, so it is no stranger that waits for a decision.
func newNoRoomRefusal() *helloRefusal {
	return &helloRefusal{code: closeOverloaded, reason: "too many peers by certificate"}
}

// admitConn makes c, whose hello is in, ready and returns nil, or returns why the hello is
// refused; the caller then calls refuseHello. No other function makes a connection ready. (A
// stranger who dials in is refused before, in accept.go.)
//
// Trust is decided under the lock that Disconnect takes, so no connection stays ready after
// its peer was untrusted: either admitConn sees the untrust, or Disconnect finds the
// connection.
func (state *peerState) admitConn(c *conn) (refusal *helloRefusal) {
	var closing []*conn
	var surplus, better *conn
	state.mu.Lock()
	refusal = state.checkHello(c)
	if refusal == nil {
		if len(state.conns) == 0 {
			state.upAt = time.Now()
			state.lastAddr, state.lastPath = c.remoteAddr(), c.endpoint.path
			state.queueEvent(Event{Type: EventUp, Name: c.claim, Addr: c.remoteAddr(), Detail: string(c.endpoint.path)})
		}
		closing = state.removeSupersededConns(c)
		state.conns = append(state.conns, c)
		if len(state.conns) > int(budget.Connections.Peer) {
			state.node.accounts.connections.CountRefusal(state.id)
			closing = append(closing, state.removeVictim())
		}
		state.reportConnCount()
		state.rememberAddr(c.endpoint.path, c.remoteAddr())
		if c.endpoint.path == Direct {
			state.rounds.noteDirect()
			state.setProvedAddr(toAddrPort(c.qc.RemoteAddr()))
		}
		state.selectCurrentConn()
		state.finishDial(nil)
		close(c.ready)
		if current := state.current.Load(); current != nil && current != c {
			better = current
		} else {
			surplus = state.findSurplusConn()
		}
	}
	state.mu.Unlock()

	for _, old := range closing {
		old.close(closeReplaced, "replaced by a newer connection")
	}
	if surplus != nil {
		surplus.sendGoaway(closeReplaced)
	}
	if better != nil {
		state.node.startOnWorker(func() { state.proveBetterConn(better) })
	}
	state.emitQueuedEvents()
	return refusal
}

// setProvedAddr remembers the address at which the peer last proved its key. The zero value
// forgets it, for Disconnect. Callers hold mu.
func (state *peerState) setProvedAddr(at netip.AddrPort) {
	if at != state.provedAddr {
		state.node.proved.replace(state.id, state.provedAddr, at)
		state.provedAddr = at
	}
}

// checkHello returns a refusal if the node is closing or the link is being removed, the peer is not trusted, it does not
// show the pinned post-quantum key, or it is a clone; else nil. Callers hold mu. A stranger that
// dials in is refused before, in acceptStranger.
func (state *peerState) checkHello(c *conn) *helloRefusal {
	if state.node.isClosing() {
		return &helloRefusal{code: closeShutdown, reason: "shutting down"}
	}
	if c.endpoint.removing.Load() {
		return &helloRefusal{code: closeReplaced, reason: linkRemoved}
	}
	p, trusted := state.node.cfg.Trust.FindPeer(state.id)
	switch {
	case !trusted && c.noRoom:
		return newNoRoomRefusal()
	case !trusted && c.dialled: // by Introduce: it waits for nobody's decision
		return &helloRefusal{code: closeNotTrusted, reason: "not trusted"}
	case !trusted:
		return &helloRefusal{code: closeNotTrusted, reason: "not trusted", event: EventPending}
	case state.gone:
		return &helloRefusal{code: closeShutdown, reason: "forgotten meanwhile: dial again"}
	}
	if refusal := c.checkPQ(p); refusal != nil {
		return refusal
	}
	now := time.Now()
	state.pastBoots = slices.DeleteFunc(state.pastBoots, func(past pastBoot) bool { return now.Sub(past.at) > supersededBootTTL })
	if slices.ContainsFunc(state.pastBoots, func(past pastBoot) bool { return past.boot == c.peerHello.Boot }) {
		return &helloRefusal{code: closeIdentityConflict, reason: "another process shows the same key", event: EventIdentityConflict}
	}
	return nil
}

// recordRefusalByPeer records that the peer refused this daemon, if that is the cause for which c
// ends. The peer can refuse after c became ready here. It has no effect while a dial or another
// connection is there.
func (state *peerState) recordRefusalByPeer(c *conn, cause error) {
	f := state.node.toDialFailure(state.id, shortAddr(c.remoteAddr()), cause)
	if f.Code != kinds.NotTrusted && !isClosedWith(cause, closeIdentityConflict) {
		return
	}
	state.mu.Lock()
	if state.dial == nil && !slices.ContainsFunc(state.conns, func(o *conn) bool { return o != c }) {
		state.finishDial(f)
	}
	state.mu.Unlock()
	state.emitQueuedEvents()
}

// refuseHello logs the refusal, tells the owner of it, and closes the connection. A stranger
// becomes pending first, unless its key is blocked.
func (c *conn) refuseHello(refusal *helloRefusal) {
	who := c.logHolder()
	c.node.peerLog.WriteLimited(who, slog.LevelInfo, "peer refused", "peer", c.id.Label(), "addr", c.remoteAddr(), "reason", refusal.reason)
	switch refusal.event {
	case EventIdentityConflict:
		c.node.peerLog.NotifyLimited(who, func(suppressed uint64) {
			detail := refusal.reason
			if note := describeOmitted(suppressed); note != "" {
				detail += "; " + note
			}
			c.node.emitEvent(Event{Type: refusal.event, Peer: c.id, Name: c.claim, Addr: c.remoteAddr(), Detail: detail})
		})
	case EventPending:
		c.addPending(who)
	}
	c.close(refusal.code, refusal.reason)
}

// addPending makes a stranger pending. If its key was trusted meanwhile, this node dials the address
// from which it came, because the stranger is refused now and does not try again.
func (c *conn) addPending(who identity.ID) {
	if c.node.cfg.Trust.IsBlocked(c.id) {
		return
	}
	p := Pending{ID: c.id, Claim: c.claim, Addr: c.remoteAddr(), Path: c.endpoint.path, PQ: c.peerPQ, At: time.Now()}
	added := c.node.pending.add(p, c.endpoint, c.endpoint.gates.sourceOf(c.qc.RemoteAddr()))
	if _, trusted := c.node.cfg.Trust.FindPeer(c.id); trusted { // so trust has looked for an address too early
		c.node.Connect(c.id)
	} else if added {
		c.node.peerLog.NotifyLimited(who, func(suppressed uint64) {
			c.node.emitEvent(Event{Type: EventPending, Peer: c.id, Name: c.claim, Addr: p.Addr, Detail: describeOmitted(suppressed)})
		})
	}
}

// logHolder returns the peer in whose share of the log a connection's lines are counted.
func (c *conn) logHolder() identity.ID {
	if c.peer == nil {
		return budget.StrangersOn(c.endpoint.name)
	}
	return c.id
}

// describeOmitted returns the note on the last event of a minute: how many others were left out.
// It is "" if none was left out.
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

// pinPQ pins the post-quantum key that an accepted peer showed, unless one is pinned already. It returns
// a refusal if another one was pinned meanwhile. If pinning fails while nothing is pinned, pinPQ logs
// that and the connection stays.
func (c *conn) pinPQ() *helloRefusal {
	if p, _ := c.node.cfg.Trust.FindPeer(c.id); !p.PQ.IsZero() || c.peerPQ.IsZero() {
		return c.checkPQ(p)
	}
	if err := c.node.cfg.Trust.PinPQ(c.id, c.peerPQ); err != nil {
		c.node.peerLog.WriteLimited(c.id, slog.LevelError, "pin the post-quantum key", "peer", c.id.Label(), "err", err)
	}
	p, _ := c.node.cfg.Trust.FindPeer(c.id)
	return c.checkPQ(p)
}
