package openintent

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/store"
)

// Config is what an Engine is made of.
type Config struct {
	Store  *store.DB    // the caller closes it, after Run has returned
	Budget *budget.Book // what other daemons may cost; nil: one of its own
	Self   string       // this daemon's id, 64 hex digits

	// OpenTo reports whether open intents are open to the agents of another daemon, by
	// its id; nil: to none. Petname reports whether a daemon is called so here; nil:
	// none is. They must not block.
	OpenTo  func(home string) bool
	Petname func(name string) bool

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

	Log   *slog.Logger // nil: slog.Default()
	Lines *budget.Log  // for what other daemons' agents cause in the log; nil: Log

	// Follow begins to follow a host that agents here have to do with, if that has
	// not begun: the body of the host's subscribe/home goes to [Engine.Relay].
	// Without a host it does so for all that are in reach, now or later. It does not
	// block; what it returns is closed once the host's stream has begun, or could
	// not. nil: streams go to Forward, and agents' own tell nothing of other hosts.
	Follow func(host string) (tried []<-chan struct{})

	// Gather gets a path below /api/v1/ from the other hosts in reach, as an agent
	// here, and returns the bodies of those that gave it, by the hosts' ids, and the
	// ids of those that did not in time, or had no room any more: of what it reads, it
	// asks for room first, from any goroutine. nil: there are no others.
	Gather func(ctx context.Context, who Caller, path string, room func(host string, bytes int) error) (lists map[string][]byte, missing []string)

	// Unsent lists the messages of an agent here, or of all for the operator, that wait
	// for other hosts or were refused by them. nil: there are none.
	Unsent func(ctx context.Context, who Caller, limit int, after int64) ([]jsontext.Value, error)

	// Changed is told when the record of an agent here has changed. It must not
	// block. nil: nobody wants to know.
	Changed func()

	// Room returns why what the agents of another daemon send may not be kept, for want
	// of space on the disk; nil where it may. nil: it always may.
	Room func(home string) error

	// Freeing calls what the agents here remove, with space on the disk that nothing
	// else has. It may call it a second time, where the first has failed for want of space.
	// nil: there is no such space.
	Freeing func(remove func() error) error

	// Inside runs the function of each write, during which all other writes of the
	// daemon wait; measurements look at what run costs. nil: nothing does.
	Inside func(run func() error) error
}

// Engine is the server. Its methods may be called from any goroutine.
type Engine struct {
	cfg       Config
	host      string // what ids that are made here carry
	db        *store.DB
	done      chan struct{}   // closed when Run returns: streams and waits end
	wake      pace.Signal     // tells Run that an earlier alarm was set
	sweep     pace.Signal     // tells Run that there is something to sweep away
	stepped   func()          // called after each step of a change, unless nil; tests let it panic
	unread    *budget.Account // bytes of answers, and of asks' responses, that other daemons have not taken
	entries   *budget.Account // bytes of entries that wait for readers of event streams
	disk      *budget.Account // bytes that other daemons' agents have written
	perIntent share           // of these on one intent
	guestbook guestbook       // what other daemons' agents have made
	relayed   *budget.Account // bytes of what other hosts have relayed that are kept
	forgets   forgets
	turn      chan struct{} // holds one while something long is computed for another daemon
	long      queues        // for the turn
	verifies  verifies
	openMost  int        // requests that are open in one channel
	looked    func(look) // tests are told what each read has looked at; nil otherwise

	mu sync.RWMutex // world, feed and alarms; changed inside of writes only, see the package comment
	world
	feed
	alarms alarms
}

// world is everything but messages and events.
type world struct {
	self       string // the daemon's id
	rows       int64  // the highest row number of intents and channels
	intents    map[string]*intent
	channels   map[string]*channel
	guests     map[string]made           // what agents have created, by their home
	listed     map[string]map[string]int // agents of other daemons that are members: home -> id -> in how many channels
	onDisk     map[string]int64          // bytes that agents of other daemons have written, by their home
	agents     map[agentKey]*agent
	roles      map[string]map[agentKey]bool // agents that say they have a role
	records    map[string]int64             // bytes of the records of agents of each other daemon
	homes      map[string]int               // how many agents of each daemon there are
	tasks      map[string]*task
	coords     map[string]*coordinator
	leavers    map[string]leaver // by their names
	departures int64             // how many agents have been to leave
	graves     []grave           // channels that are gone, whose messages are still in the store
}

// grave is the row of a channel that is gone, and whose agent had created it.
type grave struct {
	row  int64
	home string
}

// made counts what the agents of one daemon have created, and the keys of their sends
// that are kept.
type made struct{ channels, tasks, keys int }

// What one daemon keeps. Beyond, requests for more are refused.
const (
	maxIntents  = 50_000
	maxChannels = 100_000 // of agents here, as the next two; the others' are in the budget
	maxAgents   = 10_000
	maxTasks    = 50_000
	maxEntries  = 1_000    // of one intent: access, assignments, coordinators, tasks, open channels, agents of one other daemon; members of one channel; agents of one other daemon
	maxTask     = 64 << 10 // bytes
	maxOpen     = 10_000
)

// New reads what the store holds and returns an Engine that serves it. Timers
// run while [Engine.Run] does.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	if !homeForm.MatchString(cfg.Self) {
		return nil, fmt.Errorf("openintent: %q is no daemon's id: give its %d hex digits", cfg.Self, homeDigits)
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Budget == nil {
		cfg.Budget = new(budget.Book)
	}
	e := &Engine{cfg: cfg, host: cfg.Self[:HostDigits], db: cfg.Store, done: make(chan struct{}), wake: pace.NewSignal(), sweep: pace.NewSignal(),
		unread: cfg.Budget.Open(budget.Answers), entries: cfg.Budget.Open(budget.StreamEntries), disk: cfg.Budget.Open(budget.ChannelBytes),
		perIntent: share{budget.IntentBytes, budget.IntentEvents}, openMost: maxOpen, relayed: cfg.Budget.Open(budget.RelayedBytes),
		guestbook: guestbook{agents: cfg.Budget.Open(budget.ChannelAgents), records: cfg.Budget.Open(budget.ChannelAgentBytes), channels: cfg.Budget.Open(budget.Channels), tasks: cfg.Budget.Open(budget.Tasks)}}
	e.feed.start()
	e.turn = make(chan struct{}, 1)
	e.verifies.turn, e.verifies.last = e.turn, make(map[string]verified)
	e.forgets.start()
	if err := e.db.Migrate(ctx, "openintent", schema); err != nil {
		return nil, err
	}
	if err := e.nameGuests(ctx); err != nil {
		return nil, fmt.Errorf("openintent: %w", err)
	}
	if err := e.countShares(ctx); err != nil {
		return nil, fmt.Errorf("openintent: %w", err)
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
	var parts sync.WaitGroup
	parts.Go(func() { e.refollow(ctx) })
	parts.Go(func() { e.runSweeps(ctx) })
	e.runAlarms(ctx)
	parts.Wait()
	return nil
}

// room returns why what concerns the agents of another daemon may not be kept, for want of
// space on the disk.
func (e *Engine) CheckRoom(home string) error {
	if home == "" || e.cfg.Room == nil {
		return nil
	}
	return e.cfg.Room(home)
}

// refollow follows the hosts that were followed before the daemon was started. A
// store that cannot be read just now is asked again.
func (e *Engine) refollow(ctx context.Context) {
	for {
		hosts, err := e.relayHosts(ctx)
		for _, host := range hosts {
			e.Follow(host)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		e.cfg.Log.Error("openintent: the hosts that were followed are not known yet", "error", err)
		_ = pace.Sleep(ctx, retryAlarm)
	}
}

func now() chain.Time { return chain.Time(time.Now().UnixMicro()) }

// Config returns what the Engine was made of.
func (e *Engine) Config() *Config { return &e.cfg }

// Host returns the digits that the ids made here carry.
func (e *Engine) Host() string { return e.host }

// Done returns a channel that is closed when Run returns.
func (e *Engine) Done() <-chan struct{} { return e.done }

// tx is one write: a transaction and what it will have published.
type tx struct {
	*store.Tx
	e      *Engine
	now    chain.Time
	first  int64   // the first number that it may give out
	last   int64   // the last that it gave out, 0 for none
	out    []entry // to publish
	buried bool    // there is something to sweep away
	wake   []*bell // to ring
}

// write runs fn in a transaction. fn changes the store before the world, and the world
// through [tx.apply] alone.
func (e *Engine) write(ctx context.Context, durable bool, fn func(*tx) error) error {
	endTurn(ctx)
	t := &tx{e: e}
	kept := false
	defer func() { t.settle(kept) }() // also if fn panics
	err := e.db.Write(ctx, durable, func(stx *store.Tx) error {
		t.Tx, t.now, t.first = stx, now(), e.feed.next
		if e.cfg.Inside != nil {
			return e.cfg.Inside(func() error { return fn(t) })
		}
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
	if t.buried {
		t.e.sweep.Set()
	}
}

// rlocked runs fn with the world locked for reading, locked for changes. fn may panic: a
// handler that fails lets go of the lock. It must not block.
func (e *Engine) rlocked(fn func()) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	fn()
}

func (e *Engine) locked(fn func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fn()
}

// step is one change of the world: do changes something, or panics before it has; undo
// changes it back. Either may be nil. One that undoes what may have been done in part stands
// before that.
type step struct{ do, undo func() }

// apply changes the world. If the store does not keep the write, what was changed is
// changed back, the last step first: before another write begins, and after what was applied
// later was undone. So it is where a step panics, of the steps before it. All run with the
// world locked.
func (t *tx) apply(steps ...step) {
	done := 0
	t.Undo(func() {
		t.e.locked(func() {
			for ; done > 0; done-- {
				if undo := steps[done-1].undo; undo != nil {
					undo()
				}
			}
		})
	})
	t.e.locked(func() {
		for _, s := range steps {
			if s.do != nil {
				s.do()
			}
			if done++; t.e.stepped != nil {
				t.e.stepped()
			}
		}
	})
}

// set makes what is at p of the world v.
func set[T any](t *tx, p *T, v T) {
	old := *p
	t.apply(step{func() { *p = v }, func() { *p = old }})
}

// number gives out the next number of the feed. Those of a write that is lost are given out
// again, as they are when the daemon starts anew: who follows the feed hears of none of them.
func (t *tx) number() int64 {
	if t.last == 0 {
		t.Undo(func() { t.e.feed.next, t.last = t.first, 0 })
	}
	t.last = t.e.feed.next
	t.e.feed.next++
	return t.last
}

// row gives out the next row number.
func (t *tx) row() int64 {
	t.e.rows++
	return t.e.rows
}
