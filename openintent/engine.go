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
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

// Config says what an Engine works on, and how.
type Config struct {
	Store  *store.DB    // the caller closes it, after Run has returned
	Budget *budget.Book // bounds what other daemons may cost; nil: one of its own
	Self   string       // this daemon's id, 64 hex digits

	// OpenTo reports whether open intents are open to the agents of the daemon with that id;
	// nil: to none. Petname reports whether a daemon here has that petname; nil: none has.
	// They must not block.
	OpenTo  func(home string) bool
	Petname func(name string) bool

	// Lenient relaxes exactly three rules, for agents written for the reference
	// server: options are answered as they were sent, without the defaults;
	// a request needs no recipient; a reply may answer what is no request.
	Lenient bool

	Log     *slog.Logger // nil: slog.Default()
	PeerLog *budget.Log  // for lines that peers cause; nil: Log

	// Follow begins to follow a host, if that has not begun: the body of the host's
	// subscribe/home goes to [Engine.ReceiveHostStream]. Without a host it does so for all that
	// are in reach, now or later. A stream that has ended is tried again at once. Follow does
	// not block. Each channel that it returns is closed once a host's stream has begun, or
	// could not begin. nil: no host is followed.
	Follow func(host string) (tried []<-chan struct{})

	// Missed gets a path below /api/v1/ from a host that is followed, as an agent here. It calls
	// hold, from any goroutine, before it reads bytes. It is set if Follow is.
	Missed func(ctx context.Context, host string, who Caller, path string, hold func(host string, bytes int) error) ([]byte, error)

	// Gather gets a path below /api/v1/ from the other hosts in reach, as an agent here. It
	// returns the bodies by the hosts' ids, and the ids of the hosts that did not answer in
	// time or for which there was no room. It calls room, from any goroutine, before it reads
	// bytes. nil: there are no others.
	Gather func(ctx context.Context, who Caller, path string, room func(host string, bytes int) error) (lists map[string][]byte, missing []string)

	// Unsent lists the messages that wait for other hosts or were refused by them: those of
	// an agent here, or, for the operator, all. nil: there are none.
	Unsent func(ctx context.Context, who Caller, limit int, after int64) ([]jsontext.Value, error)

	// Room returns an error if there is no space on the disk to keep anything that the
	// agents of another daemon send. nil: there always is.
	Room func(home string) error

	// Freeing calls remove, which removes things for the agents here, with space on the disk
	// that nothing else has. It may call remove again, if the first call has failed for want
	// of space. nil: there is no such space.
	Freeing func(remove func() error) error

	// Inside runs the function of each write, for measurements. All other writes of the
	// daemon wait meanwhile. nil: the function runs by itself.
	Inside func(run func() error) error
}

// Engine serves intents and channels. Its methods may be called from any goroutine.
type Engine struct {
	cfg       Config
	db        *store.DB
	done      chan struct{}   // closed when Run returns: streams and waits end
	sweep     pace.Signal     // tells Run that there is something to sweep away
	stepped   func()          // called after each step of a change, unless nil; tests let it panic
	unread    *budget.Account // bytes of answers, and of asks' responses, that other daemons have not taken
	entries   waitingEntries
	disk      *budget.Account // bytes that other daemons' agents have written
	perIntent diskShare       // the most of these on one intent
	guestbook guestAccounts   // the accounts of what other daemons' agents have made
	turn      chan struct{}   // holds one while something long is computed for another daemon
	long      homeQueues      // for the turn
	verifies  homeQueues      // for the verification of logs
	openMost  int             // requests that are open in one channel
	looked    func(readQuota) // called after each read, unless nil; for tests

	mu sync.RWMutex // world, feed and alarms; changed inside of writes only, see the package comment
	world
	feed
	alarms channelAlarms
}

// NewEngine returns an Engine for the intents in the store. [Engine.Run] runs its timers.
func NewEngine(ctx context.Context, cfg Config) (*Engine, error) {
	if !object.IsHome(cfg.Self) {
		return nil, fmt.Errorf("openintent: %q is no daemon's id: give its %d hex digits", cfg.Self, object.HomeDigits)
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Budget == nil {
		cfg.Budget = new(budget.Book)
	}
	e := &Engine{cfg: cfg, db: cfg.Store, done: make(chan struct{}), sweep: pace.NewSignal(),
		unread: cfg.Budget.OpenAccount(budget.Answers), entries: waitingEntries{cfg.Budget.OpenAccount(budget.StreamEntries)}, disk: cfg.Budget.OpenAccount(budget.ChannelBytes),
		perIntent: diskShare{budget.IntentBytes, budget.IntentEvents}, openMost: maxOpen,
		guestbook: guestAccounts{agents: cfg.Budget.OpenAccount(budget.ChannelAgents), records: cfg.Budget.OpenAccount(budget.ChannelAgentBytes), channels: cfg.Budget.OpenAccount(budget.Channels), tasks: cfg.Budget.OpenAccount(budget.Tasks)}}
	e.feed = feed{next: 1, early: make(map[int64]writeOutcome), reached: make(map[string]int64), about: make(streams), ofAgents: make(streams), ofHomes: make(streams)}
	e.alarms = channelAlarms{world: &e.world, wake: pace.NewSignal()}
	e.turn = make(chan struct{}, 1)
	if err := e.db.Migrate(ctx, "openintent", schema); err != nil {
		return nil, err
	}
	if err := e.loadWorld(ctx); err != nil {
		return nil, fmt.Errorf("openintent: %w", err)
	}
	return e, nil
}

// Run closes and removes channels when it is time. It blocks until ctx ends; then every stream and
// every waiting request ends. It may be called once.
func (e *Engine) Run(ctx context.Context) error {
	defer close(e.done)
	var parts sync.WaitGroup
	parts.Go(func() { e.runSweeps(ctx) })
	e.runChannelAlarms(ctx)
	parts.Wait()
	return nil
}

// CheckDiskRoom returns an error if there is no space on the disk to keep anything for the
// agents of another daemon.
func (e *Engine) CheckDiskRoom(home string) error {
	if home == "" || e.cfg.Room == nil {
		return nil
	}
	return e.cfg.Room(home)
}

func now() chain.Time { return chain.Time(time.Now().UnixMicro()) }

// Config returns the Config that NewEngine got.
func (e *Engine) Config() *Config { return &e.cfg }

// Host returns the digits that the ids made here carry.
func (e *Engine) Host() string { return e.cfg.Self[:object.HostDigits] }

// Done returns a channel that is closed when Run returns.
func (e *Engine) Done() <-chan struct{} { return e.done }
