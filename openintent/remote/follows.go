package remote

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/store"
)

const (
	followIdle  = time.Minute      // without a ping from the host
	followAgain = time.Second      // after a stream that ended
	followRetry = 15 * time.Second // after one that did not begin, where nothing says that the host is back
)

// follows keeps one stream for each host from which agents here want to hear, and
// opens it again whenever it ends. What was missed meanwhile the host tells then.
type follows struct {
	ctx   context.Context
	log   *slog.Logger
	relay func(ctx context.Context, host identity.ID, begun func()) error // one stream to its end

	mu    sync.Mutex // guards the rest
	tasks sync.WaitGroup
	hosts map[identity.ID]*follow
	every bool // who comes into reach is followed
	over  bool
}

// follow is a host that is followed.
type follow struct {
	wake  wake
	tried chan struct{} // closed once the first stream has begun, or could not
}

// begin follows a host, if it is not followed. The channel is closed once its first
// stream has begun, or could not.
func (f *follows) begin(host identity.ID) (tried <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[host]
	if h == nil {
		h = &follow{wake: newWake(), tried: make(chan struct{})}
		f.hosts[host] = h
		if !f.over {
			f.tasks.Go(func() { f.keep(host, h) })
		}
	}
	return h.tried
}

// end waits until the streams have ended with the context. None begins any more.
func (f *follows) end() {
	f.mu.Lock()
	f.over = true
	f.mu.Unlock()
	f.tasks.Wait()
}

// isUp tells that a host has come into reach.
func (f *follows) isUp(host identity.ID) {
	f.mu.Lock()
	h, every := f.hosts[host], f.every
	f.mu.Unlock()
	switch {
	case h != nil:
		h.wake.up()
	case every:
		f.begin(host)
	}
}

// keep follows a host until the context or trust ends.
func (f *follows) keep(host identity.ID, h *follow) {
	tried := sync.OnceFunc(func() { close(h.tried) })
	for {
		wait := followRetry
		err := f.relay(f.ctx, host, func() {
			wait = followAgain
			tried()
		})
		tried()
		if f.ctx.Err() != nil {
			return
		}
		if err == errUntrusted {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.hosts, host)
			return
		}
		f.log.Debug("following a host of channels", "host", host.Label(), "again_in", wait, "err", err)
		select {
		case <-f.ctx.Done():
		case <-h.wake:
		case <-time.After(wait):
		}
	}
}

// follow follows the host with the digits; without them all hosts.
func (c *Carrier) follow(digits string) (tried []<-chan struct{}) {
	if digits != "" {
		if host, refusal := c.hostOf(digits); refusal == nil {
			tried = append(tried, c.follows.begin(host.ID))
		}
		return tried
	}
	c.follows.mu.Lock()
	c.follows.every = true
	c.follows.mu.Unlock()
	for _, host := range c.cfg.Hosts() {
		tried = append(tried, c.follows.begin(host))
	}
	return tried
}

// relay passes on what a host tells of its intents, until the stream ends.
func (c *Carrier) relay(ctx context.Context, host identity.ID, begun func()) error {
	if _, ok := c.cfg.Trusted(host); !ok {
		return errUntrusted
	}
	digits := host.String()[:openintent.HostDigits]
	if _, refusal := c.hostOf(digits); refusal != nil {
		return refusal // what it tells could be of another's intents
	}
	ctx, cancel := context.WithCancel(store.For(ctx, host))
	defer cancel()
	cursor, err := c.Engine.RelayCursor(ctx, digits)
	if err != nil {
		return err
	}
	silence := time.AfterFunc(answerTime, cancel)
	defer silence.Stop()
	answer, err := c.request(ctx, host, openintent.Daemon, http.MethodGet, api+"subscribe/home", nil, "Last-Event-ID", cursor)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("it answered %s", answer.Status)
	}
	begun()
	c.follows.tasks.Go(func() { // its end would keep the connection that another has replaced
		select {
		case <-answer.Body.(body).s.Leaving():
			cancel()
		case <-ctx.Done():
		}
	})
	return c.Engine.Relay(ctx, host.String(), heard{answer.Body, silence, followIdle})
}
