package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
)

// Queued is a file in the inbox of a bound agent.
type Queued struct {
	Project string
	Agent   string
	Peer    identity.ID
	File    string
	Hash    [32]byte // zero where it was not read
	Size    int64
	State   State  // Waiting, Delivered or Parked
	Reason  string // why it waits longer than usual, is parked, or does not go
	Since   time.Time
}

func (q Queued) path() string { return q.Project + "/" + q.Agent + "/" + q.File }

// Queue returns the files of all bound agents of a project, or of all projects for
// "", by project, agent and file with slashes between them.
func (m *Mailer) Queue(project string) []Queued {
	all := m.ledger.queued(project)
	slices.SortFunc(all, func(a, b Queued) int { return strings.Compare(a.path(), b.path()) })
	return all
}

// Trace returns what Queue says of one file or, where it is not there, what was last
// delivered from it: that is kept for 90 days, whatever becomes of the binding. It is
// nil for a file that is unknown, and for one that went before it was delivered.
func (m *Mailer) Trace(ctx context.Context, project, agent, file string) (*Queued, error) {
	p := mailbox{project, agent}
	if q := m.ledger.queuedFile(p, file); q != nil {
		return q, nil
	}
	q := &Queued{Project: project, Agent: agent, File: file, State: Delivered}
	err := m.cfg.DB.Read(ctx, func(tx *store.Tx) error {
		var ok bool
		var err error
		if q.Peer, q.Hash, q.Since, ok, err = sqlLastDelivery(tx, p, file); !ok {
			q = nil
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", file, err)
	}
	return q, nil
}

// Drop moves a file out of a bound agent's inbox into its dead_letter folder, where
// nothing carries it, and returns its path below the home.
func (m *Mailer) Drop(_ context.Context, project, agent, file string) (string, error) {
	p := mailbox{project, agent}
	_, state, bound := m.ledger.stateOf(p, file)
	switch {
	case !bound:
		return "", errNotBound("drop", p)
	case state == sending:
		return "", kinds.Errorf(kinds.Overloaded, "drop: %s is being delivered just now: look again in a moment", file)
	case file == "" || strings.ContainsAny(file, "/\x00") || !strings.HasSuffix(file, extension):
		return "", errNotHere("drop", p, file)
	}
	dir, err := m.openAgent(p)
	if err != nil {
		return "", fmt.Errorf("drop: %w", err)
	}
	defer dir.Close()
	from := path.Join(inboxDir, file)
	switch info, err := dir.Lstat(from); {
	case errors.Is(err, fs.ErrNotExist), err == nil && info.IsDir():
		return "", errNotHere("drop", p, file)
	case err != nil:
		return "", fmt.Errorf("drop: %w", err)
	}
	if err := dir.MkdirAll(deadDir, folderMode); err != nil {
		return "", fmt.Errorf("drop: %w", err)
	}
	for _, name := range numberedNames(file, maxDropped) {
		to := path.Join(deadDir, name)
		if _, err := dir.Lstat(to); err == nil {
			continue
		}
		if err := dir.Rename(from, to); err != nil {
			return "", fmt.Errorf("drop: %w", err)
		}
		m.ledger.noteChanged(p, names{file: {}})
		return path.Join(p.dir(), to), nil
	}
	return "", kinds.Errorf(kinds.Overloaded, "drop: %s holds %d files of that name: tidy it up", deadDir, maxDropped)
}

// maxDropped is how many files of one name may be dropped.
const maxDropped = 99

// notHere is what a caller hears who names a file that is not there.
func errNotHere(op string, p mailbox, file string) error {
	return kinds.Errorf(kinds.NotFound, "%s: there is no %.200q in the inbox of %s: see acpctl oacp queue", op, file, p.agent)
}
