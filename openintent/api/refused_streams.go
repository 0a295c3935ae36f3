package api

import (
	"sync"
	"time"
)

// refusedStreams delays the refusals of streams to clients that open a refused stream again at
// once. The Python SDK does so without any delay.
type refusedStreams struct {
	mu   sync.Mutex
	last map[string]time.Time // when the stream of a path was last refused to an agent
}

const (
	maxRefusedStreams = 1024
	refusalReset      = time.Minute // after which a refusal is the first again
	refusalDelay      = time.Second
)

// delayRefusal waits for refusalDelay before the stream of a request is refused, unless it is the first refusal. It
// returns when the request or the engine ends, too.
func (s *refusedStreams) delayRefusal(r *request) {
	key := r.http.Header.Get(headerAgent) + " " + r.http.URL.Path
	key = key[:min(len(key), 1024)]
	now := time.Now()
	s.mu.Lock()
	if s.last == nil || len(s.last) >= maxRefusedStreams {
		s.last = make(map[string]time.Time)
	}
	isFirst := now.Sub(s.last[key]) > refusalReset
	s.last[key] = now
	s.mu.Unlock()
	if isFirst {
		return
	}
	select {
	case <-time.After(refusalDelay):
	case <-r.Context().Done():
	case <-r.e.Done():
	}
}
