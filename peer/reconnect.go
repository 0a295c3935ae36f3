package peer

import (
	"math/rand/v2"
	"time"

	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

const (
	minBackoff = 250 * time.Millisecond
	maxBackoff = 30 * time.Second
	steadyTime = 10 * time.Second // a connection that lasted so long is dialled again at once
)

// ensureReconnecting starts the goroutine that reconnects to the peer, or ends its pause.
func (state *peerState) ensureReconnecting() {
	state.mu.Lock()
	defer state.mu.Unlock()
	if state.retry != nil {
		state.retry.Set()
		return
	}
	retry := pace.NewSignal()
	if state.node.startTask(func() { state.runReconnect(retry) }) {
		state.retry = retry
	}
}

// runReconnect dials, with pauses from 0.25 s to 30 s and full jitter, until the peer is
// connected, refuses, or is not to be kept. If connections do not last, the pauses go on
// growing.
func (state *peerState) runReconnect(retry <-chan struct{}) {
	for {
		before := state.current.Load()
		passed := state.waitBackoff(retry)
		var err *kinds.Error
		// A connection that came about in the pause has proved itself by its hello. A thousand
		// proofs after a start would have a thousand readers grow their stacks.
		if c := state.current.Load(); !passed || c == nil || c == before {
			_, err = state.ensureProvenConn(state.node.ctx, true)
		}
		state.mu.Lock()
		stop := err == nil || !state.keep || state.node.ctx.Err() != nil || err.Code == kinds.NotTrusted || err.Code == kinds.UnknownPeer
		if stop && len(retry) == 0 {
			state.retry = nil
			state.mu.Unlock()
			return
		}
		state.mu.Unlock()
	}
}

// waitBackoff blocks for the pause before a dial of the background; retry ends it. It reports
// whether the pause has passed.
func (state *peerState) waitBackoff(retry <-chan struct{}) (passed bool) {
	state.mu.Lock()
	var pause time.Duration
	if state.backoff > 0 {
		pause = rand.N(state.backoff)
	}
	if v := state.sharedFailure; v != nil && v.memory > shareVerdict {
		pause = v.memory
	}
	state.mu.Unlock()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		passed = true
	case <-retry:
	case <-state.node.ctx.Done():
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	state.backoff = min(max(2*state.backoff, minBackoff), maxBackoff)
	if v := state.sharedFailure; v != nil && v.memory <= shareVerdict {
		state.sharedFailure = nil // it was for calls; this dial has had its own pause
	}
	return passed
}
