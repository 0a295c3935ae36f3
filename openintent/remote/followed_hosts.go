package remote

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

const (
	followIdle  = time.Minute            // without a ping from the host, after which the stream ends
	followNext  = 100 * time.Millisecond // after one whose connection takes no more streams: another one does
	followAgain = time.Second            // after a stream that ended
	followRetry = 15 * time.Second       // after one that did not begin, unless the host comes into reach
)

// followedHosts keeps one stream for each host that agents here follow, and opens it again whenever
// it ends. It resumes where it has ended.
type followedHosts struct {
	g     *Gateway
	mu    sync.Mutex // guards the rest
	tasks sync.WaitGroup
	hosts map[identity.ID]*followedHost
	all   bool // hosts that come into reach are followed
	ended bool
}

// followedHost is a host that is followed. Its mutex is that of followedHosts.
type followedHost struct {
	wake   pace.Signal
	tried  chan struct{} // closed once a stream has begun, or could not begin; guarded by mu
	paused bool          // there is no stream, and the next one waits; guarded by mu
}

// startFollowing follows a host, unless it is followed already. If its stream has ended and now is
// true, the next one is tried at once. startFollowing returns a channel that is closed once the
// stream has begun, or could not begin.
func (f *followedHosts) startFollowing(host identity.ID, now bool) (tried <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[host]
	switch {
	case h == nil:
		h = &followedHost{wake: pace.NewSignal(), tried: make(chan struct{})}
		f.hosts[host] = h
		if !f.ended {
			f.tasks.Go(func() { f.followUntilEnd(host, h) })
		}
	case now && h.paused && f.g.ctx.Err() == nil:
		h.tried, h.paused = make(chan struct{}), false
		h.wake.Set()
	}
	return h.tried
}

// endTry notes that a stream has begun, or that there is none and the next one waits.
func (f *followedHosts) endTry(h *followedHost, paused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h.paused = paused
	select {
	case <-h.tried:
	default:
		close(h.tried)
	}
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
		f.startFollowing(host, false)
	}
}

// followUntilEnd follows a host until the context or trust ends.
func (f *followedHosts) followUntilEnd(host identity.ID, h *followedHost) {
	for {
		wait := followRetry
		err := f.g.readHostEvents(f.g.ctx, host, func() {
			wait = followAgain
			f.endTry(h, false)
		})
		if err == errUntrusted {
			f.mu.Lock()
			delete(f.hosts, host)
			f.mu.Unlock()
		}
		ended := err == errUntrusted || f.g.ctx.Err() != nil
		if !ended && errors.Is(err, errConnectionLeaves) {
			wait = followNext // who waits for a stream waits for that one
		} else {
			f.endTry(h, true)
		}
		if ended {
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

// followHosts implements [openintent.Config.Follow].
func (g *Gateway) followHosts(digits string) (tried []<-chan struct{}) {
	if digits != "" {
		if host, refusal := g.findHostByDigits(digits); refusal == nil {
			tried = append(tried, g.followed.startFollowing(host.ID, true))
		}
		return tried
	}
	g.followed.mu.Lock()
	g.followed.all = true
	g.followed.mu.Unlock()
	for _, host := range g.cfg.Hosts() {
		tried = append(tried, g.followed.startFollowing(host, true))
	}
	return tried
}

// readHostEvents passes a host's events on to the engine until the stream ends. It
// calls begun when the stream has said where it begins: what the host tells from then on comes, if
// not by this stream then by a later one. The error is errConnectionLeaves if another connection may be tried.
func (g *Gateway) readHostEvents(ctx context.Context, host identity.ID, begun func()) error {
	if _, ok := g.cfg.Trusted(host); !ok {
		return errUntrusted
	}
	digits := host.String()[:object.HostDigits]
	if _, refusal := g.findHostByDigits(digits); refusal != nil {
		return refusal // it could send events of another host's intents
	}
	ctx, cancel := context.WithCancel(store.WithRequester(ctx, host))
	defer cancel()
	silence := time.AfterFunc(answerTime, cancel)
	defer silence.Stop()
	answer, err := g.sendHostRequest(ctx, host, object.Daemon, http.MethodGet, apiPath+"subscribe/home", nil, "Last-Event-ID", g.Engine.HostPlace(digits))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return ownwords.Errorf("it answered %s", answer.Status)
	}
	s := answer.Body.(streamBody).s
	g.followed.tasks.Go(func() { // else the stream would keep a connection that another has replaced
		select {
		case <-s.Leaving():
			cancel()
		case <-ctx.Done():
		}
	})
	err = g.Engine.ReceiveHostStream(ctx, host.String(), idleBody{answer.Body, silence, followIdle}, begun)
	return errors.Join(err, checkConnection(s))
}

// fetchMissed implements [openintent.Config.Missed]. It asks only a host that is in reach, because a
// stream waits meanwhile.
func (g *Gateway) fetchMissed(ctx context.Context, digits string, who openintent.Caller, path string, hold func(host string, bytes int) error) ([]byte, error) {
	host, refusal := g.findHostByDigits(digits)
	if refusal != nil {
		return nil, refusal
	}
	if !slices.Contains(g.cfg.Hosts(), host.ID) {
		return nil, kinds.Errorf(kinds.Unreachable, "it is out of reach")
	}
	leave, err := g.reserveWaitSlot(host.ID)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	room := func(bytes int) error { return hold(host.ID.String(), bytes) }
	status, page, err := g.fetchFromHost(ctx, maxGathered, room, host.ID, who.Agent, http.MethodGet, apiPath+path, nil)
	if err == nil && status != http.StatusOK {
		err = ownwords.Errorf("it answered with status %d", status)
	}
	return page, err
}
