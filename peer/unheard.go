package peer

import (
	"context"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
)

// On a relay the link reports within a round trip to it that nobody takes a peer's packets. That is
// what a third party claims. It can be false, and it can be true for one packet and not for the one
// before: the peer may have read a call, and gone then. So a call whose last byte has left never
// ends as "not delivered" because of a notice. A notice only makes calls wait before
// they send anything, and shortens the time until others end as "unknown".

// isDoubtful reports whether the connection is to be proven before it is used: it has been silent,
// or the link says that nobody is there.
func (c *conn) isDoubtful() bool {
	if c.endpoint.path != ViaRelay {
		return c.isSilentFor(silentAfter)
	}
	if c.nobody.Load() {
		return true
	}
	return c.isSilentFor(leastSilence) && c.isSilentFor(min(silentAfter, max(leastSilence, silentRTTs*c.qc.ConnectionStats().SmoothedRTT)))
}

// errUnheard is the cause that ends a call from which the peer has acknowledged nothing.
var errUnheard = ownwords.New("nobody takes its packets")

// unheardCall is a call that the peer may not have received.
type unheardCall struct {
	packets uint64 // received on the connection before it began
	end     context.CancelCauseFunc
}

// watchUnheard ends ctx with errUnheard when the link reports that nobody takes packets at the
// peer, a proof confirms it, and no packet has come since the call began. It does so only on
// relays. It is called before the call adds its stream. The caller calls forget when the call
// has ended.
func (c *conn) watchUnheard(ctx context.Context) (_ context.Context, forget func()) {
	if c.endpoint.path != ViaRelay {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	call := &unheardCall{c.qc.ConnectionStats().PacketsReceived, cancel}
	c.mu.Lock()
	c.unheard[call] = struct{}{}
	c.mu.Unlock()
	return ctx, func() {
		c.mu.Lock()
		delete(c.unheard, call)
		c.mu.Unlock()
		cancel(nil)
	}
}

// awaitWord sends a further ping, so that one that is lost decides nothing, and waits until the
// peer has had the time to answer either. It reports whether no packet has come since the proof
// began.
func (c *conn) awaitWord(ctx context.Context, p *proof) bool {
	c.sendPing(0)
	rtt := c.qc.ConnectionStats().SmoothedRTT
	return p.waitFor(ctx, max(leastUnheard, unheardRTTs*rtt, time.Since(p.began)+rtt*3/2)) && c.qc.ConnectionStats().PacketsReceived == p.packets
}

// endUnheardCalls makes the connection leave, so that calls that have sent nothing look for
// another, and ends those from which the peer has acknowledged nothing. The others
// go on as long as the proof does: the peer may work on them, and come back.
func (c *conn) endUnheardCalls(p *proof) {
	c.sendGoaway(closeReplaced)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live.proof != p {
		return
	}
	for call := range c.unheard {
		if call.packets == p.packets {
			call.end(errUnheard)
		}
	}
}

// waitFor blocks until d has passed since the proof began, and reports whether ctx lasted so long.
func (p *proof) waitFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(time.Until(p.began.Add(d)))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
