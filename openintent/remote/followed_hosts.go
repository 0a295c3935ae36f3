package remote

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/store"
)

const (
	followIdle  = time.Minute      // without a ping from the host
	followAgain = time.Second      // after a stream that ended
	followRetry = 15 * time.Second // after one that did not begin, where nothing says that the host is back
)

// followedHosts keeps one stream for each host from which agents here want to hear, and
// opens it again whenever it ends. What was missed meanwhile the host tells then.
type followedHosts struct {
	ctx        context.Context
	log        *slog.Logger
	readEvents func(ctx context.Context, host identity.ID, begun func()) error // one stream to its end

	mu    sync.Mutex // guards the rest
	tasks sync.WaitGroup
	hosts map[identity.ID]*followedHost
	all   bool // who comes into reach is followed
	ended bool
}

// followedHost is a host that is followed.
type followedHost struct {
	wake  pace.Signal
	tried chan struct{} // closed once the first stream has begun, or could not
}

// startFollowing follows a host, if it is not followed. The channel is closed once its first
// stream has begun, or could not.
func (f *followedHosts) startFollowing(host identity.ID) (tried <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[host]
	if h == nil {
		h = &followedHost{wake: pace.NewSignal(), tried: make(chan struct{})}
		f.hosts[host] = h
		if !f.ended {
			f.tasks.Go(func() { f.followUntilEnd(host, h) })
		}
	}
	return h.tried
}

// waitAll waits until the streams have ended with the context. None begins any more.
func (f *followedHosts) waitAll() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.tasks.Wait()
}

// hostInReach tells that a host has come into reach.
func (f *followedHosts) hostInReach(host identity.ID) {
	f.mu.Lock()
	h, every := f.hosts[host], f.all
	f.mu.Unlock()
	switch {
	case h != nil:
		h.wake.Set()
	case every:
		f.startFollowing(host)
	}
}

// followUntilEnd follows a host until the context or trust ends.
func (f *followedHosts) followUntilEnd(host identity.ID, h *followedHost) {
	tried := sync.OnceFunc(func() { close(h.tried) })
	for {
		wait := followRetry
		err := f.readEvents(f.ctx, host, func() {
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

// followHosts follows the host with the digits; without them all hosts.
func (g *Gateway) followHosts(digits string) (tried []<-chan struct{}) {
	if digits != "" {
		if host, refusal := g.findHost(digits); refusal == nil {
			tried = append(tried, g.followed.startFollowing(host.ID))
		}
		return tried
	}
	g.followed.mu.Lock()
	g.followed.all = true
	g.followed.mu.Unlock()
	for _, host := range g.cfg.Hosts() {
		tried = append(tried, g.followed.startFollowing(host))
	}
	return tried
}

// readEvents passes on what a host tells of its intents, until the stream ends.
func (g *Gateway) readEvents(ctx context.Context, host identity.ID, begun func()) error {
	if _, ok := g.cfg.Trusted(host); !ok {
		return errUntrusted
	}
	digits := host.String()[:openintent.HostDigits]
	if _, refusal := g.findHost(digits); refusal != nil {
		return refusal // what it tells could be of another's intents
	}
	ctx, cancel := context.WithCancel(store.For(ctx, host))
	defer cancel()
	cursor, err := g.Engine.RelayCursor(ctx, digits)
	if err != nil {
		return err
	}
	silence := time.AfterFunc(answerTime, cancel)
	defer silence.Stop()
	answer, err := g.sendRequest(ctx, host, openintent.Daemon, http.MethodGet, apiPath+"subscribe/home", nil, "Last-Event-ID", cursor)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("it answered %s", answer.Status)
	}
	begun()
	g.followed.tasks.Go(func() { // its end would keep the connection that another has replaced
		select {
		case <-answer.Body.(streamBody).s.Leaving():
			cancel()
		case <-ctx.Done():
		}
	})
	return g.Engine.Relay(ctx, host.String(), idleBody{answer.Body, silence, followIdle})
}
