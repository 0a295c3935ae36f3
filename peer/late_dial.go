package peer

import (
	"context"
	"time"

	"github.com/quic-go/quic-go"
)

// A peer that was only on relays while it was connected has no address on UDP that is known to lead to it. So
// its calls fail as soon as all its relays report that nobody is there. The dial goes on as the late one, for the
// rest of its time: should an address lead to the peer by now, the next call finds a connection (protocol,
// section 2, Dialling). Meanwhile dials leave the addresses to it. To learn of the absence soon, handshakes on
// relays wait for nothing; the hello waits, so that an address that leads to the peer again is preferred.

// noteReadyPath notes the path of a connection that becomes ready, and whether no other one is. Callers hold mu.
func (state *peerState) noteReadyPath(p Path, first bool) {
	switch {
	case p != ViaRelay:
		state.relayOnly, state.relayedSince = false, time.Time{} // as noteProvedKey, for one that the peer has dialled
	case first:
		state.relayedSince = time.Now()
	}
}

// noteDown notes that the last connection has ended. Callers hold mu.
func (state *peerState) noteDown() {
	state.relayOnly, state.relayedSince = state.isRelayOnly(), time.Time{}
}

// isRelayOnly reports whether the peer was only on relays when it was connected last, or is so on a connection that
// leaves. A time that was shorter than a dial is ignored, as the addresses were still being tried. A peer that has a
// pipe is never relay-only, as its command may find it elsewhere. Callers hold mu.
func (state *peerState) isRelayOnly() bool {
	if state.node.hasPipe(state.id) {
		return false
	}
	return state.relayOnly || !state.relayedSince.IsZero() && time.Since(state.relayedSince) >= dialTime
}

// forgetRelayOnly makes dials wait for the addresses again, as there may be a new way. If the peer is only on relays
// now, that time begins anew. Callers hold mu.
func (state *peerState) forgetRelayOnly() {
	state.relayOnly = false
	if !state.relayedSince.IsZero() {
		state.relayedSince = time.Now()
	}
	state.stopLateDial()
}

// awaitAbsence ends the dial for calls once every relay among the routes has reported the peer absent, if the peer was
// only on relays.
func (state *peerState) awaitAbsence(d *dial, routes []route) {
	relays := 0
	for _, r := range routes {
		if r.path == ViaRelay {
			relays++
		}
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	if state.isRelayOnly() && relays < len(routes) {
		d.relays = relays
	}
}

// noteAbsence notes that a relay says that nobody is there. If it is the last one that had to, the dial is over
// for calls, unless there may be a new way since it began.
func (state *peerState) noteAbsence(d *dial, f *dialFailure) {
	state.mu.Lock()
	if state.dial == d && d.relays > 0 && state.isRelayOnly() {
		if d.relays--; d.relays == 0 {
			d.isLate = true
			state.noteDialFailure(f.Error)
			state.finishDial(f)
		}
	}
	state.mu.Unlock()
	state.emitQueuedEvents()
}

// mayGreet waits until the leg may greet, as addresses of the peer that lead to it now go first, and reports false if
// one did.
func (l leg) mayGreet(ctx context.Context, qc *quic.Conn, began time.Time) bool {
	if l.rest == 0 {
		return true
	}
	select {
	case <-time.After(l.rest - time.Since(began)):
		return true
	case <-qc.Context().Done(): // greet returns the error
		return true
	case <-ctx.Done():
		return false
	}
}

// noteProvedKey notes that the peer has proved its key on a path. If that is no relay, relays end no dial for calls
// from now on, as the peer may still answer there.
func (state *peerState) noteProvedKey(p Path) {
	if p == ViaRelay {
		return
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	state.relayOnly, state.relayedSince = false, time.Time{}
}

// finishLateDial ends the late dial. Its failure replaces the shared one if it explains more than the relays did. A
// refusal by the peer also ends a dial that runs meanwhile. Callers hold mu, and call emitQueuedEvents after it.
func (state *peerState) finishLateDial(failure *dialFailure) {
	state.stopLateDial()
	if failure != nil && failure.rank() > 1 && (failure.refused || state.dial == nil) {
		state.noteDialFailure(failure.Error)
		state.finishDial(failure)
	}
}

// stopLateDial ends the late dial, if there is one. Callers hold mu.
func (state *peerState) stopLateDial() {
	if state.late != nil {
		state.late.cancel()
		state.late = nil
	}
}
