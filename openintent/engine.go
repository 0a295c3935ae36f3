package openintent

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/acpd/acpd/store"
)

// Config is what an Engine is made of.
type Config struct {
	Store *store.DB // the caller closes it, after Run has returned
	Host  string    // the first ten hex digits of this daemon's id

	// Lenient relaxes exactly three rules, for agents written for the reference
	// server: options are answered as they were sent, without the defaults;
	// a request needs no recipient; a reply may answer what is no request.
	Lenient bool

	// HeldList is how long the plain list of messages waits for the response to
	// an open request of its caller; 0 answers at once. It makes clients fast
	// that ask by polling.
	HeldList time.Duration

	// RequestTTL closes requests that came without expires_at.
	RequestTTL time.Duration

	// Retention is how long closed channels stay readable; negative: for ever.
	Retention time.Duration

	MaxPayload int // the largest payload of a message, in bytes of JSON

	// QuietAgents keeps messages off the stream /agents/{id}/subscribe, where
	// the stock Python runtime logs an error for each.
	QuietAgents bool

	Log *slog.Logger // nil: slog.Default()

	// Follow begins to follow a host that agents here have to do with, if that has
	// not begun: the body of the host's subscribe/home goes to [Engine.Relay].
	// Without a host it does so for all that are in reach, now or later. It does not
	// block; what it returns is closed once the host's stream has begun, or could
	// not. nil: streams go to Forward, and agents' own tell nothing of other hosts.
	Follow func(host string) (tried []<-chan struct{})

	// Gather gets a path below /api/v1/ from the other hosts in reach, as an agent
	// here, and returns the bodies of those that gave it, by the hosts' ids. nil:
	// there are no others.
	Gather func(ctx context.Context, who Caller, path string) map[string][]byte

	// Changed is told when the record of an agent here has changed. It must not
	// block. nil: nobody wants to know.
	Changed func()

	// Forward serves a request about an intent of another host; nil: there are no
	// others, and the answer is 404. It must answer.
	Forward func(p Parcel, w http.ResponseWriter, r *http.Request)
}

// Engine is the server. Its methods may be called from any goroutine.
type Engine struct {
	cfg     Config
	db      *store.DB
	done    chan struct{} // closed when Run returns: streams and waits end
	wake    chan struct{} // tells Run that an earlier alarm was set
	unhappy unhappy

	mu sync.RWMutex // world, feed and alarms; changed inside of writes only, see the package comment
	world
	feed
	alarms alarms
}

// world is everything but messages and events.
type world struct {
	rows     int64 // the highest row number of intents and channels
	intents  map[string]*intent
	channels map[string]*channel
	guests   map[string]made // what agents have created, by their home
	agents   map[agentKey]*agent
	tasks    map[string]*task
	coords   map[string]*coordinator
}

// made counts what the agents of one daemon have created, and their sends with a
// key since the world was read.
type made struct{ channels, tasks, keys int }

// What one daemon keeps. Beyond, requests for more are refused.
const (
	maxIntents  = 50_000
	maxChannels = 100_000
	maxGuest    = 2_000 // channels, and tasks, that the agents of one other daemon have created
	maxAgents   = 10_000
	maxTasks    = 50_000
	maxEntries  = 1_000    // of one intent: access, assignments, coordinators, tasks, open channels, agents of one other daemon; members of one channel; agents of one other daemon
	maxTask     = 64 << 10 // bytes
	maxOpen     = 10_000
)

// New reads what the store holds and returns an Engine that serves it. Timers
// run while [Engine.Run] does.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	if !isHost(cfg.Host) {
		return nil, fmt.Errorf("openintent: %q is no host: give the first %d hex digits of the daemon's id", cfg.Host, HostDigits)
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	e := &Engine{cfg: cfg, db: cfg.Store, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	e.feed.start()
	if err := e.db.Migrate(ctx, "openintent", schema); err != nil {
		return nil, err
	}
	if err := e.load(ctx); err != nil {
		return nil, fmt.Errorf("openintent: %w", err)
	}
	return e, nil
}

// Run closes and purges channels when it is time, until ctx ends; then every
// stream and every waiting request ends too. It also follows the hosts that were
// followed before. It may be called once.
func (e *Engine) Run(ctx context.Context) error {
	defer close(e.done)
	hosts, err := e.relayHosts(ctx)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("openintent: %w", err)
	}
	for _, host := range hosts {
		e.follow(host)
	}
	e.runAlarms(ctx)
	return nil
}

// tx is one write: a transaction and what it will have published.
type tx struct {
	*store.Tx
	e     *Engine
	now   stamp
	dirty bool    // the world was changed
	first int64   // the first number that it may give out
	last  int64   // the last that it gave out, 0 for none
	out   []entry // to publish
	wake  []*bell // to ring
}

// write runs fn in a transaction. fn refuses before it changes anything,
// changes the store before the world, and the world through [tx.apply] alone.
func (e *Engine) write(ctx context.Context, durable bool, fn func(*tx) error) error {
	t := &tx{e: e}
	kept := false
	defer func() { // also if fn panics: numbers that are never settled would stop the feed
		if t.settle(kept); !kept && t.dirty {
			// The world has seen what the store has lost.
			if err := e.load(context.WithoutCancel(ctx)); err != nil {
				e.cfg.Log.Error("openintent: reading the state again failed", "error", err)
			}
		}
	}()
	err := e.db.Write(ctx, durable, func(stx *store.Tx) error {
		t.Tx, t.now, t.first = stx, now(), e.feed.next
		return fn(t)
	})
	kept = err == nil
	return err
}

// settle publishes what was committed and wakes who waits for it.
func (t *tx) settle(kept bool) {
	if !kept {
		t.out = nil
	}
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	if t.last > 0 {
		t.e.publish(t.first, t.last, t.out)
	}
	for _, b := range t.wake {
		b.ring()
	}
}

// apply changes the world.
func (t *tx) apply(change func()) {
	t.dirty = true
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	change()
}

// number gives out the next number of the feed.
func (t *tx) number() int64 {
	t.last = t.e.feed.next
	t.e.feed.next++
	return t.last
}

// row gives out the next row number.
func (t *tx) row() int64 {
	t.e.rows++
	return t.e.rows
}
