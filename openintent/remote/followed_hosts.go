package remote

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/store"
)

const (
	followIdle  = time.Minute      // without a ping from the host, after which the stream ends
	followAgain = time.Second      // after a stream that ended
	followRetry = 15 * time.Second // after one that did not begin, unless the host comes into reach
)

// followedHosts keeps one stream for each host of which agents here want to hear, and opens it
// again whenever it ends. The host then tells what was missed meanwhile.
type followedHosts struct {
	g     *Gateway
	mu    sync.Mutex // guards the rest
	tasks sync.WaitGroup
	hosts map[identity.ID]*followedHost
	all   bool // hosts that come into reach are followed
	ended bool
}

// followedHost is a host that is followed.
type followedHost struct {
	wake  pace.Signal
	tried chan struct{} // closed once the first stream has begun, or could not begin
}

// startFollowing follows a host, unless it is followed already. It returns a channel that is closed
// once the first stream has begun, or could not begin.
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

// waitForStreams waits until the streams have ended with the context. None begins any more.
func (f *followedHosts) waitForStreams() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.tasks.Wait()
}

// handleHostInReach notes that a host has come into reach, and has it followed if need be.
func (f *followedHosts) handleHostInReach(host identity.ID) {
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
		err := f.g.readHostEvents(f.g.ctx, host, func() {
			wait = followAgain
			tried()
		})
		tried()
		if f.g.ctx.Err() != nil {
			return
		}
		if err == errUntrusted {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.hosts, host)
			return
		}
		f.g.log.Debug("following a host of channels", "host", host.Label(), "again_in", wait, "err", err)
		select {
		case <-f.g.ctx.Done():
		case <-h.wake:
		case <-time.After(wait):
		}
	}
}

// followHosts follows the host with the digits, or all hosts if digits is "". Each channel is closed
// once the first stream of a host has begun, or could not begin.
func (g *Gateway) followHosts(digits string) (tried []<-chan struct{}) {
	if digits != "" {
		if host, refusal := g.findHostByDigits(digits); refusal == nil {
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

// readHostEvents passes on to the engine what a host tells of its intents, until the stream ends. It
// calls begun when the stream has begun.
func (g *Gateway) readHostEvents(ctx context.Context, host identity.ID, begun func()) error {
	if _, ok := g.cfg.Trusted(host); !ok {
		return errUntrusted
	}
	digits := host.String()[:openintent.HostDigits]
	if _, refusal := g.findHostByDigits(digits); refusal != nil {
		return refusal // it could tell of another host's intents
	}
	ctx, cancel := context.WithCancel(store.WithRequester(ctx, host))
	defer cancel()
	cursor, err := g.Engine.ReadStreamCursor(ctx, digits)
	if err != nil {
		return err
	}
	silence := time.AfterFunc(answerTime, cancel)
	defer silence.Stop()
	answer, err := g.sendHostRequest(ctx, host, openintent.Daemon, http.MethodGet, apiPath+"subscribe/home", nil, "Last-Event-ID", cursor)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("it answered %s", answer.Status)
	}
	begun()
	g.followed.tasks.Go(func() { // else the stream would keep a connection that another has replaced
		select {
		case <-answer.Body.(streamBody).s.Leaving():
			cancel()
		case <-ctx.Done():
		}
	})
	return g.Engine.ReceiveHostStream(ctx, host.String(), idleBody{answer.Body, silence, followIdle})
}
