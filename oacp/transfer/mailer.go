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
	"github.com/acpd/acpd/internal/pace"
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

// Config is what a Mailer works with. All of it is required.
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

// Mailer is a daemon's end of the mail between machines. Its methods may be called from any
// goroutine.
type Mailer struct {
	cfg     Config
	shares  shares
	parsing parseSlots // of what peers have sent

	changed pace.Signal // Run has something to look at

	mu         sync.Mutex // guards what follows
	bound      map[mailbox]*boundInbox
	arrivals   map[mailbox]map[string][]*arrival // stored and not consumed, by their names here
	queues     map[identity.ID]*peerQueue
	dirty      map[mailbox]names
	whole      map[mailbox]names                    // files that are whole: their writer has given up their temporary name
	arriving   map[arrivalKey]struct{}              // being stored
	connected  map[identity.ID]bool                 // connected
	peerAgents map[identity.ID]map[mailbox]struct{} // agents that live at a connected peer, as it says
	events     []Event                              // not told yet; see unlock
	failures   map[failure]struct{}                 // that are logged
	scanAfter  map[mailbox]time.Time                // of inboxes that take long to look through: not before
}

// names are files of a folder; nil are all of them.
type names map[string]struct{}

// selected yields what a look at some files, or at all, is about.
func selected[V any](all map[string]V, which names) iter.Seq2[string, V] {
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
func Open(ctx context.Context, cfg Config) (*Mailer, error) {
	if cfg.Budget == nil {
		cfg.Budget = new(budget.Book)
	}
	if cfg.Lines == nil {
		cfg.Lines = cfg.Budget.OpenLog(cfg.Log)
	}
	c := &Mailer{
		cfg:        cfg,
		shares:     openShares(cfg.Budget, cmp.Or(cfg.rows, daemonRows(cfg.Descriptors))),
		parsing:    parseSlots{places: maxParsing},
		changed:    pace.NewSignal(),
		bound:      make(map[mailbox]*boundInbox),
		arrivals:   make(map[mailbox]map[string][]*arrival),
		queues:     make(map[identity.ID]*peerQueue),
		dirty:      make(map[mailbox]names),
		whole:      make(map[mailbox]names),
		arriving:   make(map[arrivalKey]struct{}),
		connected:  make(map[identity.ID]bool),
		peerAgents: make(map[identity.ID]map[mailbox]struct{}),
		failures:   make(map[failure]struct{}),
		scanAfter:  make(map[mailbox]time.Time),
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
func (m *Mailer) load(ctx context.Context) error {
	var bindings []Binding
	var arrivals []*arrival
	var rows map[identity.ID]int64
	var untold []identity.ID
	err := m.cfg.DB.Read(ctx, func(tx *store.Tx) (err error) {
		if bindings, err = sqlBindings(tx); err != nil {
			return err
		}
		if arrivals, err = sqlOpenArrivals(tx); err != nil {
			return err
		}
		rows, untold, err = sqlPeers(tx)
		return err
	})
	if err != nil {
		return err
	}
	for _, b := range bindings {
		m.bound[b.mailbox()] = newBoundInbox(b)
	}
	for who, n := range rows {
		m.shares.ledger.Add(who, n)
	}
	for _, who := range untold {
		m.queueOf(who).unread = true
	}
	for _, a := range arrivals {
		if a.state == writing {
			if err := m.recoverArrival(ctx, a); err != nil { // its sender will ask again
				m.cfg.Log.Warn("mail: what was being stored when the daemon ended is not settled", "project", a.key.project, "agent", a.key.agent, "file", a.key.file, "err", err)
			}
		}
		m.addArrival(a)
	}
	return nil
}

// addArrival puts an arrival where its state wants it. The caller holds m.mu or is Open.
func (m *Mailer) addArrival(a *arrival) {
	switch a.state {
	case stored:
		p := a.key.mailbox
		if m.arrivals[p] == nil {
			m.arrivals[p] = make(map[string][]*arrival)
		}
		m.arrivals[p][a.name] = append(m.arrivals[p][a.name], a)
		m.countRoom(a)
		a.kept = true
	case consumed:
		k := m.queueOf(a.key.peer)
		if len(k.reports) < maxReportsKept {
			k.reports = append(k.reports, a)
		} else {
			k.unread = true
		}
		k.wake()
	}
}

// SetConnected says that a peer is connected, or no more. What waits for a connected peer
// is tried at once, and so is what it has refused: it may think otherwise now.
func (m *Mailer) SetConnected(peer identity.ID, up bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.connected[peer] == up {
		return
	}
	if up {
		m.connected[peer] = true
	} else {
		delete(m.connected, peer)
		delete(m.peerAgents, peer)
	}
	k := m.queues[peer]
	for p, s := range m.bound {
		if s.Peer != peer {
			continue
		}
		k = m.queueOf(peer)
		s.peerStatus = "" // until the peer says more
		m.markDirty(p, names{})
	}
	m.changed.Set()     // it may be down since it is trusted no more
	if k != nil && up { // also one that has only something to report
		k.unreachedUntil, k.unreachedPause, k.trouble = time.Time{}, 0, ""
		m.retryRefused(peer)
		k.announceAgain()
	}
}

// unlockAndTell gives m.mu back and tells what has happened under it.
func (m *Mailer) unlockAndTell() {
	news := m.events
	m.events = nil
	m.mu.Unlock()
	for _, e := range news {
		what := []any{"peer", e.Peer.Label(), "project", e.Project, "agent", e.Agent, "file", e.File, "reason", e.Reason}
		switch {
		case e.refused: // in the peer's words, and as often as it likes
			m.cfg.Lines.Add(e.Peer, slog.LevelWarn, "mail "+e.State, what...)
		case e.State == Parked:
			m.cfg.Log.Warn("mail "+e.State, what...)
		default:
			m.cfg.Log.Debug("mail "+e.State, what...)
		}
		m.cfg.Event(e)
	}
}

// markDirty has the Run loop look at files of a folder: nil are all of them, none is
// the folder's status alone. The caller holds m.mu.
func (m *Mailer) markDirty(p mailbox, which names) {
	old, ok := m.dirty[p]
	switch {
	case which == nil || ok && old == nil:
		m.dirty[p] = nil
	case !ok:
		m.dirty[p] = which
	default:
		for name := range which {
			old[name] = struct{}{}
		}
	}
	m.changed.Set()
}

// Run carries mail until ctx ends.
func (m *Mailer) Run(ctx context.Context) error {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	folders := newFolderWatch(m, &tasks)
	defer folders.close()
	rescan := time.NewTicker(rescanEvery)
	defer rescan.Stop()
	tasks.Go(func() { m.pruneLoop(ctx) })
	m.markAllDirty()
	for {
		m.scanDirty(ctx, folders)
		m.superviseQueues(ctx, &tasks)
		select {
		case <-ctx.Done():
			m.writeAllOffline()
			return nil
		case <-m.changed:
		case <-rescan.C:
			m.markAllDirty()
			folders.removeOthers(m.mailboxes())
		}
	}
}

// scanDirty looks at what is dirty.
func (m *Mailer) scanDirty(ctx context.Context, folders *folderWatch) {
	m.mu.Lock()
	dirty := m.dirty
	m.dirty = make(map[mailbox]names)
	m.mu.Unlock()
	for p, files := range dirty {
		if ctx.Err() != nil {
			return
		}
		if files == nil {
			folders.add(p) // before the look, so that nothing falls between
		}
		began := time.Now()
		n := m.scanInbox(ctx, p, files)
		if files == nil {
			m.delayScan(p, n, time.Since(began), time.Now())
		}
	}
}
