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
func (s *peerState) ensureReconnecting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retry != nil {
		s.retry.Set()
		return
	}
	retry := pace.NewSignal()
	if s.node.startTask(func() { s.runReconnect(retry) }) {
		s.retry = retry
	}
}

// runReconnect dials, with pauses from 0.25 s to 30 s and full jitter, until the peer is
// connected, refuses, or is not to be kept. If connections do not last, the pauses go on
// growing.
func (s *peerState) runReconnect(retry <-chan struct{}) {
	for {
		s.waitBackoff(retry)
		_, err := s.ensureReadyConn(s.node.ctx)
		s.mu.Lock()
		stop := err == nil || !s.keep || s.node.ctx.Err() != nil || err.Code == kinds.NotTrusted || err.Code == kinds.UnknownPeer
		if stop && len(retry) == 0 {
			s.retry = nil
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// waitBackoff blocks for the pause before a dial of the background; retry ends it.
func (s *peerState) waitBackoff(retry <-chan struct{}) {
	s.mu.Lock()
	var pause time.Duration
	if s.backoff > 0 {
		pause = rand.N(s.backoff)
	}
	if v := s.verdict; v != nil && v.memory > shareVerdict {
		pause = v.memory
	}
	s.mu.Unlock()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-retry:
	case <-s.node.ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backoff = min(max(2*s.backoff, minBackoff), maxBackoff)
	if v := s.verdict; v != nil && v.memory <= shareVerdict {
		s.verdict = nil // calls share it; the pause was taken here
	}
}
