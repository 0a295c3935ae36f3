package api

import (
	"context"
	"sync"
	"time"

	"github.com/acpd/acpd/openintent/chain"
)

// unhappy slows down clients that open a stream again at once when they were
// refused: the Python SDK does so without any delay.
type unhappy struct {
	mu    sync.Mutex
	tries map[string]try
}

type try struct {
	n  int
	at chain.Time
}

const (
	maxUnhappy   = 1024
	unhappyReset = time.Minute
	unhappyMax   = 15 * time.Second
)

// hold waits before a stream is refused: not the first time, then ever longer.
func (u *unhappy) hold(r *request) {
	key := r.http.Header.Get(headerAgent) + " " + r.http.URL.Path
	if len(key) > 1024 {
		key = key[:1024]
	}
	at := chain.Time(time.Now().UnixMicro())
	u.mu.Lock()
	if u.tries == nil || len(u.tries) >= maxUnhappy {
		u.tries = make(map[string]try)
	}
	t := u.tries[key]
	if t.at.Add(unhappyReset) < at {
		t.n = 0
	}
	delay := time.Duration(0)
	if t.n > 0 {
		delay = min(time.Second<<min(t.n-1, 4), unhappyMax)
	}
	u.tries[key] = try{t.n + 1, at.Add(delay)}
	u.mu.Unlock()
	if delay > 0 {
		sleep(r.Context(), delay, r.e.Done())
	}
}

func sleep(ctx context.Context, d time.Duration, done <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-done:
	}
}
