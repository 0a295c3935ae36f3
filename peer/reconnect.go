package peer

import (
	"math/rand/v2"
	"time"

	"github.com/acpd/acpd/kinds"
)

const (
	minBackoff = 250 * time.Millisecond
	maxBackoff = 30 * time.Second
	steadyTime = 10 * time.Second // after which a link that ends is dialled again at once
)

// reconnect makes sure that one goroutine tries to reach the peer, from the
// shortest pause on.
func (r *remote) reconnect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retry != nil {
		select {
		case r.retry <- struct{}{}:
		default:
		}
		return
	}
	retry := make(chan struct{}, 1)
	if r.node.begin(func() { r.runReconnect(retry) }) {
		r.retry = retry
	}
}

// runReconnect dials with pauses from 0.25 s to 30 s and full jitter until the
// peer is connected, refuses, or is not to be kept. Where connections do not last,
// the pauses go on growing.
func (r *remote) runReconnect(retry <-chan struct{}) {
	for {
		r.rest(retry)
		_, err := r.ready(r.node.ctx)
		r.mu.Lock()
		stop := err == nil || !r.keep || r.node.ctx.Err() != nil || err.Code == kinds.NotTrusted || err.Code == kinds.UnknownPeer
		if stop && len(retry) == 0 {
			r.retry = nil
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
	}
}

// rest is the pause before a dial of the background; retry ends it.
func (r *remote) rest(retry <-chan struct{}) {
	r.mu.Lock()
	var pause time.Duration
	if r.backoff > 0 {
		pause = rand.N(r.backoff)
	}
	if v := r.verdict; v != nil && v.memory > shareVerdict {
		pause = v.memory
	}
	r.mu.Unlock()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-retry:
	case <-r.node.ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.backoff = min(max(2*r.backoff, minBackoff), maxBackoff)
	if v := r.verdict; v != nil && v.memory <= shareVerdict {
		r.verdict = nil // calls share it; the pause was taken here
	}
}
