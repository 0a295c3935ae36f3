package transfer

import (
	"cmp"
	"context"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
)

// The modes of a binding say when the copy here is removed.
const (
	mirror   = "mirror"    // when the agent there has finished its own
	onStored = "on-stored" // some time, the linger, after it is stored there
)

// defaultLinger gives tools time to look for the file after they have sent it.
const (
	defaultLinger = 2 * time.Minute
	maxLinger     = 30 * 24 * time.Hour
)

// Binding says that an agent lives at a peer.
type Binding struct {
	Project string
	Agent   string
	Peer    identity.ID
	Mode    string        // Mirror or onStored; empty means Mirror
	Linger  time.Duration // whole seconds, with onStored; zero means defaultLinger
}

func (b Binding) mailbox() mailbox { return mailbox{b.Project, b.Agent} }

// Bind notes durably that an agent lives at a peer, or changes its binding. It makes the agent's
// folder if that is missing, but not the project's. It refuses an agent that has sent from here,
// unless take says that the agent has moved.
func (m *Mailer) Bind(ctx context.Context, b Binding, take bool) (Binding, error) {
	b.Mode = cmp.Or(b.Mode, mirror)
	p := b.mailbox()
	if err := p.checkNames(); err != nil {
		return b, err
	}
	switch {
	case b.Mode != mirror && b.Mode != onStored:
		return b, kinds.Errorf(kinds.Invalid, "bind: mode %.40q: use %s or %s", b.Mode, mirror, onStored)
	case b.Linger < 0 || b.Linger > maxLinger || b.Linger%time.Second != 0:
		return b, kinds.Errorf(kinds.Invalid, "bind: linger %q: use whole seconds, at most %s", kinds.FormatDuration(b.Linger), kinds.FormatDuration(maxLinger))
	case b.Mode == mirror && b.Linger != 0:
		return b, kinds.Errorf(kinds.Invalid, "bind: linger %q: it belongs to mode %s", kinds.FormatDuration(b.Linger), onStored)
	case b.Mode == onStored:
		b.Linger = cmp.Or(b.Linger, defaultLinger)
	}
	if _, bound := m.ledger.findBoundPeer(p); !bound {
		if len(m.Bindings("")) >= maxBindings {
			return b, kinds.Errorf(kinds.Overloaded, "bind: %d agents are bound, the most there can be: unbind some", maxBindings)
		}
		if err := m.makeAgentFolders(p, take); err != nil {
			return b, err
		}
	}
	if err := m.cfg.DB.Write(ctx, true, func(tx *store.Tx) error { return sqlPutAgentBinding(tx, b) }); err != nil {
		return b, ownwords.Errorf("bind: %w", err)
	}
	m.ledger.addBinding(b)
	return b, nil
}

// Unbind notes durably that an agent is hosted here, and returns its last binding. Its inbox
// stays as it is.
func (m *Mailer) Unbind(ctx context.Context, project, agent string) (Binding, error) {
	p := mailbox{project, agent}
	if _, bound := m.ledger.findBoundPeer(p); !bound {
		return Binding{}, newNotBoundError("unbind", p)
	}
	if err := m.cfg.DB.Write(ctx, true, func(tx *store.Tx) error { return sqlDeleteAgentBinding(tx, p) }); err != nil {
		return Binding{}, ownwords.Errorf("unbind: %w", err)
	}
	b, bound := m.ledger.removeBinding(p)
	if !bound { // somebody else has unbound it meanwhile
		return b, newNotBoundError("unbind", p)
	}
	m.removeStatusFile(p)
	return b, nil
}

func newNotBoundError(op string, p mailbox) error {
	return kinds.Errorf(kinds.NotFound, "%s: %.64q of project %.64q is bound to nobody: see acpctl oacp bindings", op, p.agent, p.project)
}

// Bindings returns the bindings of a project, or of all projects if project is empty, sorted by
// name.
func (m *Mailer) Bindings(project string) []Binding { return m.ledger.listBindings(project) }
