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
// once, whoever dies when: the store knows what came, by
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
	"log/slog"
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
	State   State  // Arrived, or the state that the queue shows
	Reason  string // why it is parked

	refused bool // it is the peer's word
}

// Mailer is a daemon's end of the mail between machines. Its methods may be called from any
// goroutine.
type Mailer struct {
	cfg Config
	*ledger
	parsing  parseSlots // of what peers have sent
	failures failureLog
}

// Open reads what the store knows of bindings and mail. Nothing is carried before Run.
func Open(ctx context.Context, cfg Config) (*Mailer, error) {
	if cfg.Budget == nil {
		cfg.Budget = new(budget.Book)
	}
	if cfg.Lines == nil {
		cfg.Lines = cfg.Budget.OpenLog(cfg.Log)
	}
	m := &Mailer{
		cfg:      cfg,
		ledger:   newLedger(openAccounts(cfg.Budget, cmp.Or(cfg.rows, daemonRows(cfg.Descriptors)))),
		parsing:  parseSlots{places: maxParsing},
		failures: failureLog{seen: make(map[failure]struct{})},
	}
	if err := cfg.DB.Migrate(ctx, "oacp", schema); err != nil {
		return nil, err
	}
	if err := m.load(ctx); err != nil {
		return nil, fmt.Errorf("open mail: %w", err)
	}
	return m, nil
}

// load reads bindings and arrivals, and settles what a crash left half stored.
func (m *Mailer) load(ctx context.Context) error {
	var bindings []Binding
	var arrivals []*arrival
	var rows map[identity.ID]int64
	var unreported []identity.ID
	err := m.cfg.DB.Read(ctx, func(tx *store.Tx) (err error) {
		if bindings, err = sqlBindings(tx); err != nil {
			return err
		}
		if arrivals, err = sqlOpenArrivals(tx); err != nil {
			return err
		}
		rows, unreported, err = sqlPeers(tx)
		return err
	})
	if err != nil {
		return err
	}
	m.ledger.load(bindings, rows, unreported)
	for _, a := range arrivals {
		if a.state == writing {
			if err := m.recoverArrival(ctx, a); err != nil { // its sender will ask again
				m.cfg.Log.Warn("mail: what was being stored when the daemon ended is not settled", "project", a.key.project, "agent", a.key.agent, "file", a.key.file, "err", err)
			}
		}
		m.ledger.addArrival(a)
	}
	return nil
}

// SetConnected says whether a peer is connected. What waits for a peer that has come is
// tried at once, and so is what that peer has refused: it may decide otherwise now.
func (m *Mailer) SetConnected(peer identity.ID, up bool) { m.ledger.setConnected(peer, up) }

// tell logs events and hands them to the daemon.
func (m *Mailer) tell(events []Event) {
	for _, e := range events {
		what := []any{"peer", e.Peer.Label(), "project", e.Project, "agent", e.Agent, "file", e.File, "reason", e.Reason}
		text := "mail " + string(e.State)
		switch {
		case e.refused: // in the peer's words, and as often as it likes
			m.cfg.Lines.Add(e.Peer, slog.LevelWarn, text, what...)
		case e.State == Parked:
			m.cfg.Log.Warn(text, what...)
		default:
			m.cfg.Log.Debug(text, what...)
		}
		m.cfg.Event(e)
	}
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
	m.ledger.markAllDirty()
	for {
		m.scanDirty(ctx, folders)
		m.runQueues(ctx, &tasks)
		select {
		case <-ctx.Done():
			m.writeAllOffline()
			return nil
		case <-m.ledger.changed:
		case <-rescan.C:
			m.ledger.markAllDirty()
			folders.removeOthers(m.ledger.mailboxes())
		}
	}
}

// scanDirty scans what is marked dirty.
func (m *Mailer) scanDirty(ctx context.Context, folders *folderWatch) {
	for p, files := range m.ledger.takeDirty() {
		if ctx.Err() != nil {
			return
		}
		if files == nil {
			folders.add(p) // before the scan, so that nothing falls between
		}
		began := time.Now()
		n := m.scanInbox(ctx, p, files)
		if files == nil {
			m.ledger.delayScan(p, n, time.Since(began), time.Now())
		}
	}
}
