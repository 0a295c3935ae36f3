package transfer

import (
	"context"
	"sort"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/store"
)

// Queued is a file in the inbox of a bound agent.
type Queued struct {
	Project string
	Agent   string
	Peer    identity.ID
	File    string
	Hash    [32]byte // zero if it was not read
	Size    int64
	State   State  // Waiting, Delivered or Parked
	Reason  string // why it waits longer than usual, is parked, or is not removed
	Since   time.Time
}

func (q Queued) path() string { return q.Project + "/" + q.Agent + "/" + q.File }

// ListQueue returns the files of all bound agents of a project, or of all projects if project is
// empty, sorted by project/agent/file.
func (m *Mailer) ListQueue(project string) []Queued {
	all := m.ledger.listQueuedMail(project)
	sort.Slice(all, func(i, j int) bool { return all[i].path() < all[j].path() })
	return all
}

// TraceFile returns the line of ListQueue for one file. If the file is gone, it returns its last
// delivery, which is kept for 90 days, whether the agent is bound or not. It returns nil for a
// file that is unknown, or that was removed before it was delivered.
func (m *Mailer) TraceFile(ctx context.Context, project, agent, file string) (*Queued, error) {
	p := mailbox{project, agent}
	if q := m.ledger.findQueuedMail(p, file); q != nil {
		return q, nil
	}
	var d *delivery
	err := m.cfg.DB.Read(ctx, func(tx *store.Tx) (err error) {
		d, err = sqlReadDelivery(tx, p, file)
		return err
	})
	if err != nil {
		return nil, ownwords.Errorf("look for %s: %w", file, err)
	}
	if d == nil {
		return nil, nil
	}
	return &Queued{Project: project, Agent: agent, Peer: d.peer, File: file, Hash: d.hash, State: Delivered, Since: d.at}, nil
}
