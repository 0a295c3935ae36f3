package api

import (
	"sync"
	"time"

	"github.com/acpd/acpd/openintent/chain"
)

// refusedStreams delays the refusals of streams to clients that open a refused stream again at
// once. The Python SDK does so without any delay.
type refusedStreams struct {
	mu       sync.Mutex
	attempts map[string]attempts
}

// attempts counts the refusals of one stream in a row.
type attempts struct {
	n    int
	last chain.Time
}

const (
	maxRefusedStreams = 1024
	refusalReset      = time.Minute // after which a refusal is the first again
	maxRefusalDelay   = 15 * time.Second
)

// delayRefusal waits before the stream of a request is refused: not the first time, then ever
// longer. It returns when the request or the engine ends, too.
func (s *refusedStreams) delayRefusal(r *request) {
	key := r.http.Header.Get(headerAgent) + " " + r.http.URL.Path
	key = key[:min(len(key), 1024)]
	at := chain.Time(time.Now().UnixMicro())
	s.mu.Lock()
	if s.attempts == nil || len(s.attempts) >= maxRefusedStreams {
		s.attempts = make(map[string]attempts)
	}
	a := s.attempts[key]
	if a.last.Add(refusalReset) < at {
		a.n = 0
	}
	var delay time.Duration
	if a.n > 0 {
		delay = min(time.Second<<min(a.n-1, 4), maxRefusalDelay)
	}
	s.attempts[key] = attempts{a.n + 1, at.Add(delay)}
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
	case <-r.e.Done():
	}
}
