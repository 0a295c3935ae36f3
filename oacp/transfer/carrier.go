// Package transfer takes OACP messages from one machine to another.
//
// OACP is files: an agent's inbox is a folder of YAML messages. An agent that is
// bound to a peer lives on that peer's machine; a message that any tool puts into
// its inbox here is carried, byte for byte, into its inbox there. The file is the
// queue: it is only read, and it goes when the agent there is done with its copy
// (mirror) or some time after the copy is stored (on-stored). Every agent that is
// not bound is hosted here, and takes mail from peers.
//
// # Guarantees
//
// What was stored is durable before the sender hears of it. Each message arrives
// once, whoever dies when: a ledger in the daemon's database knows what came, by
// sender, recipient, file name and hash. Nothing is overwritten, rewritten or
// lost; what cannot be carried stays where it is, parked with a reason, and holds
// up nothing else. A peer that has no room left for our mail holds up what is for that
// peer, for a minute at most; what it has no room for in one inbox holds up nothing else.
// What came from the network is never sent on. A peer delivers
// only to agents that are hosted here, and only from agents that are bound to it:
// who a message is from is proved, which OACP by itself does not do.
//
// # What it leaves to others
//
// Streams and trust (the daemon hands in what opens one), the meaning of messages
// (package message), and mailboxes (package mailbox): with the daemon stopped they
// work as ever, and mail for other machines waits.
package transfer

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/store"
)

// Stream is a stream of type 0x03, its type already written or read. Exactly one
// goroutine uses it. Close ends both halves, and what was written arrives; Cancel
// gives it up.
type Stream interface {
	io.ReadWriter
	CloseWrite() error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	Close() error
	Cancel()
}

// Config is what a carrier works with. All of it is required.
type Config struct {
	Home string // the OACP home, absolute; it need not exist
	DB   *store.DB
	Log  *slog.Logger

	Budget *budget.Book // what peers may cost; nil: one of its own
	// Descriptors is how many peers may cause to be open, all together; 0: no sum.
	Descriptors int64
	Lines       *budget.Log // for what peers cause in the log; nil: one of its own

	// Open opens a stream to a peer. It blocks until there is one, ctx ends, or it
	// is clear that there will be none.
	Open func(ctx context.Context, to identity.ID) (Stream, error)
	// Admit returns why a peer may not send mail here, nil if it may.
	Admit func(from identity.ID) error
	// Trusted reports whether a peer is trusted: to others nothing is taken.
	Trusted func(identity.ID) bool
	// Name is what a peer is called here.
	Name func(identity.ID) string
	// Event is told of mail; it must not block.
	Event func(Event)

	rows      rows // other ones than the budget's, for tests
	unwatched bool // no folder is watched, for tests in virtual time
}

// Event is mail that arrived, or mail of ours of which the state has changed.
type Event struct {
	Peer    identity.ID
	Project string
	Agent   string // the recipient
	File    string // its name in the recipient's inbox here
	Hash    [32]byte
	State   string // Arrived, or the state that the queue shows
	Reason  string // why it is parked

	refused bool // it is the peer's word
}

// Arrived is the state of mail that came from a peer.
const Arrived = "arrived"

// Carrier is what package carrier is about. Its methods may be called from any
// goroutine.
type Carrier struct {
	cfg     Config
	shares  shares
	readers gate // of what peers have sent

	wake chan struct{} // something is dirty; capacity 1

	mu        sync.Mutex // guards what follows
	spools    map[place]*spool
	arrivals  map[place]map[string][]*arrival // stored and not consumed, by their names here
	couriers  map[identity.ID]*courier
	dirty     map[place]names
	hints     map[place]names                    // files that are whole: their writer has given up their temporary name
	arriving  map[arrivalKey]struct{}            // being stored
	linked    map[identity.ID]bool               // connected
	residing  map[identity.ID]map[place]struct{} // agents that live at a connected peer, as it says
	news      []Event                            // not told yet; see unlock
	failures  map[failure]struct{}               // that are logged
	lookAfter map[place]time.Time                // of inboxes that take long to look through: not before
}

// names are files of a folder; nil are all of them.
type names map[string]struct{}

// asked yields what a look at some files, or at all, is about.
func asked[V any](all map[string]V, which names) iter.Seq2[string, V] {
	if which == nil {
		return maps.All(all)
	}
	return func(yield func(string, V) bool) {
		for name := range which {
			if v, ok := all[name]; ok && !yield(name, v) {
				return
			}
		}
	}
}

// Open reads what the database knows. Nothing is carried before Run.
func Open(ctx context.Context, cfg Config) (*Carrier, error) {
	if cfg.Budget == nil {
		cfg.Budget = new(budget.Book)
	}
	if cfg.Lines == nil {
		cfg.Lines = cfg.Budget.OpenLog(cfg.Log)
	}
	c := &Carrier{
		cfg:       cfg,
		shares:    openShares(cfg.Budget, cmp.Or(cfg.rows, daemonRows(cfg.Descriptors))),
		readers:   gate{places: maxReading},
		wake:      make(chan struct{}, 1),
		spools:    make(map[place]*spool),
		arrivals:  make(map[place]map[string][]*arrival),
		couriers:  make(map[identity.ID]*courier),
		dirty:     make(map[place]names),
		hints:     make(map[place]names),
		arriving:  make(map[arrivalKey]struct{}),
		linked:    make(map[identity.ID]bool),
		residing:  make(map[identity.ID]map[place]struct{}),
		failures:  make(map[failure]struct{}),
		lookAfter: make(map[place]time.Time),
	}
	if err := cfg.DB.Migrate(ctx, "oacp", schema); err != nil {
		return nil, err
	}
	if err := c.load(ctx); err != nil {
		return nil, fmt.Errorf("open mail: %w", err)
	}
	return c, nil
}

// load reads bindings and arrivals, and settles what a crash left half stored.
func (c *Carrier) load(ctx context.Context) error {
	var bindings []Binding
	var open []*arrival
	var rows map[identity.ID]int64
	var untold []identity.ID
	err := c.cfg.DB.Read(ctx, func(tx *store.Tx) (err error) {
		if bindings, err = sqlBindings(tx); err != nil {
			return err
		}
		if open, err = sqlOpenArrivals(tx); err != nil {
			return err
		}
		rows, untold, err = sqlSenders(tx)
		return err
	})
	if err != nil {
		return err
	}
	for _, b := range bindings {
		c.spools[b.place()] = newSpool(b)
	}
	for who, n := range rows {
		c.shares.ledger.Add(who, n)
	}
	for _, who := range untold {
		c.courier(who).untold = true
	}
	for _, a := range open {
		if a.state == writing {
			if err := c.mend(ctx, a); err != nil { // its sender will ask again
				c.cfg.Log.Warn("mail: what was being stored when the daemon ended is not settled", "project", a.key.project, "agent", a.key.agent, "file", a.key.file, "err", err)
			}
		}
		c.keep(a)
	}
	return nil
}

// keep puts an arrival where its state wants it. The caller holds c.mu or is Open.
func (c *Carrier) keep(a *arrival) {
	switch a.state {
	case stored:
		p := a.key.place
		if c.arrivals[p] == nil {
			c.arrivals[p] = make(map[string][]*arrival)
		}
		c.arrivals[p][a.name] = append(c.arrivals[p][a.name], a)
		c.count(a)
		a.kept = true
	case consumed:
		k := c.courier(a.key.peer)
		if len(k.reports) < maxUntold {
			k.reports = append(k.reports, a)
		} else {
			k.untold = true
		}
		k.signal()
	}
}

// Link says that a peer is connected, or no more. What waits for a connected peer
// is tried at once, and so is what it has refused: it may think otherwise now.
func (c *Carrier) Link(peer identity.ID, up bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.linked[peer] == up {
		return
	}
	if up {
		c.linked[peer] = true
	} else {
		delete(c.linked, peer)
		delete(c.residing, peer)
	}
	k := c.couriers[peer]
	for p, s := range c.spools {
		if s.Peer != peer {
			continue
		}
		k = c.courier(peer)
		s.status = "" // until the peer says more
		c.touch(p, names{})
	}
	c.rouse()           // it may be down since it is trusted no more
	if k != nil && up { // also one that has only something to report
		k.until, k.pause, k.trouble = time.Time{}, 0, ""
		c.offerRefused(peer)
		k.regreet()
	}
}

// unlock gives c.mu back and tells what has happened under it.
func (c *Carrier) unlock() {
	news := c.news
	c.news = nil
	c.mu.Unlock()
	for _, e := range news {
		what := []any{"peer", e.Peer.Label(), "project", e.Project, "agent", e.Agent, "file", e.File, "reason", e.Reason}
		switch {
		case e.refused: // in the peer's words, and as often as it likes
			c.cfg.Lines.Add(e.Peer, slog.LevelWarn, "mail "+e.State, what...)
		case e.State == Parked:
			c.cfg.Log.Warn("mail "+e.State, what...)
		default:
			c.cfg.Log.Debug("mail "+e.State, what...)
		}
		c.cfg.Event(e)
	}
}

// touch has the Run loop look at files of a folder: nil are all of them, none is
// the folder's status alone. The caller holds c.mu.
func (c *Carrier) touch(p place, which names) {
	old, ok := c.dirty[p]
	switch {
	case which == nil || ok && old == nil:
		c.dirty[p] = nil
	case !ok:
		c.dirty[p] = which
	default:
		for name := range which {
			old[name] = struct{}{}
		}
	}
	c.rouse()
}

// Run carries mail until ctx ends.
func (c *Carrier) Run(ctx context.Context) error {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	w := newWatch(c, &tasks)
	defer w.close()
	rescan := time.NewTicker(rescanEvery)
	defer rescan.Stop()
	tasks.Go(func() { c.pruneAll(ctx) })
	c.rescan()
	for {
		c.pass(ctx, w)
		c.crew(ctx, &tasks)
		select {
		case <-ctx.Done():
			c.feedOffline()
			return nil
		case <-c.wake:
		case <-rescan.C:
			c.rescan()
			w.keep(c.places())
		}
	}
}

// pass looks at what is dirty.
func (c *Carrier) pass(ctx context.Context, w *watch) {
	c.mu.Lock()
	dirty := c.dirty
	c.dirty = make(map[place]names)
	c.mu.Unlock()
	for p, which := range dirty {
		if ctx.Err() != nil {
			return
		}
		if which == nil {
			w.add(p) // before the look, so that nothing falls between
		}
		began := time.Now()
		n := c.look(ctx, p, which)
		if which == nil {
			c.tookToLook(p, n, time.Since(began), time.Now())
		}
	}
}
