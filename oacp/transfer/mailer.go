// Package transfer carries OACP messages from one machine to another.
//
// An agent's inbox is a folder of YAML messages. An agent that is bound to a peer lives on
// that peer's machine: a message that any tool puts into its inbox here is carried, byte for
// byte, into its inbox there. The file is the queue. It is only read, and it is removed when
// the agent there is done with its copy (mirror), or some time after the copy is stored
// (on-stored). Every agent that is not bound is hosted here, and takes mail from peers.
//
// # Guarantees
//
// A message is on the disk before its sender learns that it is stored. Each message arrives
// once, even if daemons die: the store knows arrivals by sender, recipient, file name and
// hash. Nothing is overwritten, changed or lost. A file that cannot be carried stays in its
// inbox, parked with a reason, and delays no other. If a peer has no room for our mail, only
// mail for that peer waits, for a minute at most. If it has no room in one inbox, only mail
// for that inbox waits. Mail from the network is never sent on. A peer delivers only to agents
// that are hosted here, and only from agents that are bound to it. So the sender of a message
// is proved, which OACP by itself does not do.
//
// # Other packages
//
// The daemon opens streams and decides on trust. Package message knows what messages mean.
// Package mailbox reads and writes mailboxes; without the daemon they work as before, and
// mail for other machines waits.
package transfer

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/store"
)

// Stream is a stream of type 0x03, after its type was read or written. Exactly one goroutine
// uses it. Close ends both halves, and the written bytes arrive. Cancel drops the stream.
type Stream interface {
	io.ReadWriter
	CloseWrite() error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	Close() error
	Cancel()
}

// Config holds the parts of the daemon that a Mailer uses. A part is required unless its
// comment says what nil or zero means.
type Config struct {
	Home string // the OACP home, absolute; it need not exist
	DB   *store.DB
	Log  *slog.Logger

	Budget *budget.Book // what peers may cost; OpenMailer makes one if it is nil
	// Descriptors bounds the descriptors that all peers together may cause to be open. Zero
	// means no bound.
	Descriptors int64
	PeerLog     *budget.Log // for lines that peers cause; OpenMailer makes one if it is nil

	// Open opens a stream to a peer. It blocks until the stream is open, ctx ends, or it is
	// clear that none can be opened.
	Open func(ctx context.Context, to identity.ID) (Stream, error)
	// Admit returns an error if a peer may not send mail here.
	Admit func(from identity.ID) error
	// Trusted reports whether a peer is trusted. Mail for other peers waits.
	Trusted func(identity.ID) bool
	// Name returns the name of a peer for people.
	Name func(identity.ID) string
	// Event receives the events of mail. It must not block.
	Event func(Event)
	// Carried is called for each delivery of a mail, to a peer or from one, with the receiver's
	// result or [Unreachable]. It must not block, and may be nil.
	Carried func(toPeer bool, result string)

	rows      budgetRows // replaces the budget's rows in tests
	unwatched bool       // for tests in virtual time: no folder is watched
}

// Unreachable is the result of a delivery that did not reach the receiver or got no answer.
const Unreachable = "unreachable"

// Event is the arrival of a mail, or a change of the state of ours.
type Event struct {
	Peer    identity.ID
	Project string
	Agent   string // the recipient
	File    string // its name in the recipient's inbox here
	Hash    [32]byte
	State   State  // Arrived, or the state that the queue shows
	Reason  string // why it is parked

	refused bool // the peer gave the reason
}

// Mailer carries mail between this machine and others. Its methods may be called from any
// goroutine.
type Mailer struct {
	cfg      Config
	ledger   *ledger
	parsing  *parseSlots // for messages from peers
	failures failureLog
}

// OpenMailer reads bindings and mail from the store. Nothing is carried before Run.
func OpenMailer(ctx context.Context, cfg Config) (*Mailer, error) {
	if cfg.Budget == nil {
		cfg.Budget = new(budget.Book)
	}
	if cfg.PeerLog == nil {
		cfg.PeerLog = cfg.Budget.OpenLog(cfg.Log)
	}
	m := &Mailer{
		cfg:      cfg,
		ledger:   newLedger(openBudgetAccounts(cfg.Budget, cmp.Or(cfg.rows, newBudgetRows(cfg.Descriptors)))),
		parsing:  newParseSlots(maxParsing),
		failures: failureLog{seen: make(map[failure]struct{})},
	}
	if err := cfg.DB.Migrate(ctx, "oacp", schema); err != nil {
		return nil, err
	}
	if err := m.loadState(ctx); err != nil {
		return nil, ownwords.Errorf("open mail: %w", err)
	}
	return m, nil
}

// loadState reads bindings and arrivals, and settles arrivals that a crash left half stored.
func (m *Mailer) loadState(ctx context.Context) error {
	var bindings []Binding
	var arrivals []*arrival
	var rows map[identity.ID]int64
	var unreported []identity.ID
	err := m.cfg.DB.Read(ctx, func(tx *store.Tx) (err error) {
		if bindings, err = sqlListAgentBindings(tx); err == nil {
			arrivals, err = sqlListOpenArrivals(tx)
		}
		if err == nil {
			rows, unreported, err = sqlCountArrivalsByPeer(tx)
		}
		return err
	})
	if err != nil {
		return err
	}
	m.ledger.restoreState(bindings, rows, unreported)
	for _, a := range arrivals {
		if a.state == writing {
			if err := m.recoverArrival(ctx, a); err != nil { // its sender will ask again
				m.cfg.Log.Warn("mail: what was being stored when the daemon ended is not settled", "project", a.key.project, "agent", a.key.agent, "file", a.key.file, "err", err)
			}
		}
		m.ledger.refileArrivals(a)
	}
	return nil
}

// SetConnected notes whether a peer is connected. Mail for a peer that has connected is tried
// at once, and so is what that peer has refused, because it may decide differently now.
func (m *Mailer) SetConnected(peer identity.ID, up bool) { m.ledger.setPeerConnected(peer, up) }

// publishEvents logs events and hands them to the daemon.
func (m *Mailer) publishEvents(events []Event) {
	for _, e := range events {
		what := []any{"peer", e.Peer.Label(), "project", e.Project, "agent", e.Agent, "file", e.File, "reason", e.Reason}
		text := "mail " + string(e.State)
		switch {
		case e.refused: // the peer chooses the words, and how often they come
			m.cfg.PeerLog.WriteLimited(e.Peer, slog.LevelWarn, text, what...)
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
	folders := &folderWatch{mailer: m, tasks: &tasks}
	defer folders.closeWatcher()
	rescan := time.NewTicker(rescanEvery)
	defer rescan.Stop()
	tasks.Go(func() { m.pruneLoop(ctx) })
	m.ledger.markAllDirty()
	for {
		m.scanDirtyInboxes(ctx, folders)
		m.startAndStopLoops(ctx, &tasks)
		select {
		case <-ctx.Done():
			m.writeOfflineStatuses()
			return nil
		case <-m.ledger.changed:
		case <-rescan.C:
			m.ledger.markAllDirty()
			folders.unwatchUnscanned()
		}
	}
}

// scanDirtyInboxes scans the files that are marked dirty.
func (m *Mailer) scanDirtyInboxes(ctx context.Context, folders *folderWatch) {
	for p, files := range m.ledger.takeDirtyFiles() {
		if ctx.Err() != nil {
			return
		}
		if files == nil {
			folders.watchInbox(p) // before the scan, so that nothing falls between
		}
		began := time.Now()
		n := m.scanInbox(ctx, p, files)
		if files == nil {
			m.ledger.delayNextScan(p, n, time.Since(began), time.Now())
		}
	}
}
