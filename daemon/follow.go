package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/openintent"
)

const (
	followIdle  = time.Minute      // without a ping from the host
	followAgain = time.Second      // after a stream that ended
	followRetry = 15 * time.Second // after one that did not begin, where nothing says that the host is back
)

// errUntrusted ends the following of a host.
var errUntrusted = errors.New("the host is not trusted here any more")

// follows keeps one stream for each host from which agents here want to hear, and
// opens it again whenever it ends. What was missed meanwhile the host tells then.
type follows struct {
	log   *slog.Logger
	relay func(ctx context.Context, host identity.ID, begun func()) error // one stream to its end

	mu    sync.Mutex      // guards the rest
	ctx   context.Context // while run does
	tasks sync.WaitGroup
	hosts map[identity.ID]*follow
	every bool // who comes into reach is followed
}

// follow is a host that is followed.
type follow struct {
	rouse chan struct{} // holds one where it is time to try
	tried chan struct{} // closed once the first stream has begun, or could not
}

func newFollows(log *slog.Logger, relay func(context.Context, identity.ID, func()) error) *follows {
	return &follows{log: log, relay: relay, hosts: make(map[identity.ID]*follow)}
}

// run follows hosts until ctx ends, and waits for their streams to end.
func (f *follows) run(ctx context.Context) error {
	f.mu.Lock()
	f.ctx = ctx
	for host, h := range f.hosts {
		f.start(host, h)
	}
	f.mu.Unlock()
	<-ctx.Done()
	f.mu.Lock()
	f.ctx = nil
	f.mu.Unlock()
	f.tasks.Wait()
	return nil
}

// begin follows a host, if it is not followed. The channel is closed once its first
// stream has begun, or could not.
func (f *follows) begin(host identity.ID) (tried <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[host]
	if h == nil {
		h = &follow{rouse: make(chan struct{}, 1), tried: make(chan struct{})}
		f.hosts[host] = h
		f.start(host, h)
	}
	return h.tried
}

// start has the lock.
func (f *follows) start(host identity.ID, h *follow) {
	if ctx := f.ctx; ctx != nil { // otherwise run will do it, or it is over
		f.tasks.Go(func() { f.keep(ctx, host, h) })
	}
}

// isUp tells that a host has come into reach.
func (f *follows) isUp(host identity.ID) {
	f.mu.Lock()
	h, every := f.hosts[host], f.every
	f.mu.Unlock()
	switch {
	case h != nil:
		select {
		case h.rouse <- struct{}{}:
		default:
		}
	case every:
		f.begin(host)
	}
}

// keep follows a host until ctx or trust ends.
func (f *follows) keep(ctx context.Context, host identity.ID, h *follow) {
	tried := sync.OnceFunc(func() { close(h.tried) })
	defer tried()
	for {
		wait := followRetry
		err := f.relay(ctx, host, func() {
			wait = followAgain
			tried()
		})
		tried()
		if ctx.Err() != nil {
			return
		}
		if err == errUntrusted {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.hosts, host)
			return
		}
		f.log.Debug("following a host of channels", "host", host.Label(), "again_in", wait, "err", err)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-h.rouse:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// followHost follows the host with the digits; without them all hosts.
func (d *Daemon) followHost(digits string) (tried []<-chan struct{}) {
	f := d.channels.follows
	if digits != "" {
		if host, ok := d.hostOf(digits); ok {
			tried = append(tried, f.begin(host.ID))
		}
		return tried
	}
	f.mu.Lock()
	f.every = true
	f.mu.Unlock()
	for _, host := range d.hosts() {
		tried = append(tried, f.begin(host))
	}
	return tried
}

// relay passes on what a host tells of its intents, until the stream ends.
func (d *Daemon) relay(ctx context.Context, host identity.ID, begun func()) error {
	to, ok := d.trust.Get(host)
	if !ok {
		return errUntrusted
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	digits := host.String()[:hostDigits]
	cursor, err := d.channels.engine.RelayCursor(ctx, digits)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://acpd/api/v1/subscribe/home", nil)
	if err != nil {
		return err
	}
	r.Header.Set(headerAgent, openintent.Daemon)
	if cursor != "" {
		r.Header.Set("Last-Event-ID", cursor)
	}
	answer, err := hostTransport{d, to}.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", to.Name, answer.Status)
	}
	begun()
	idle := time.AfterFunc(followIdle, cancel)
	defer idle.Stop()
	return d.channels.engine.Relay(ctx, digits, pinged{answer.Body, idle})
}

// pinged is a stream that must not fall silent.
type pinged struct {
	io.Reader
	idle *time.Timer
}

func (p pinged) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.idle.Reset(followIdle)
	return n, err
}
