package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
)

// The modes of a binding: when the copy here goes.
const (
	Mirror   = "mirror"    // when the agent there is done with its own
	OnStored = "on-stored" // some time, the linger, after it is stored there
)

// DefaultLinger gives tools that look for the file after a send their time.
const (
	DefaultLinger = 2 * time.Minute
	maxLinger     = 30 * 24 * time.Hour
)

// Binding says that an agent lives at a peer.
type Binding struct {
	Project string
	Agent   string
	Peer    identity.ID
	Mode    string        // Mirror or OnStored; "" is Mirror
	Linger  time.Duration // whole seconds, with OnStored; 0 is DefaultLinger
}

func (b Binding) mailbox() mailbox { return mailbox{b.Project, b.Agent} }

// Bind makes an agent one that lives at a peer, or changes its binding, durably.
// The agent's folder is made if it is missing; the project's is not. An agent that
// has sent from here lives here: it is bound only with take, as one that has moved.
func (m *Mailer) Bind(ctx context.Context, b Binding, take bool) (Binding, error) {
	b.Mode = cmp.Or(b.Mode, Mirror)
	p := b.mailbox()
	if err := p.check(); err != nil {
		return b, err
	}
	switch {
	case b.Mode != Mirror && b.Mode != OnStored:
		return b, kinds.Errorf(kinds.Invalid, "bind: mode %.40q: use %s or %s", b.Mode, Mirror, OnStored)
	case b.Linger < 0 || b.Linger > maxLinger || b.Linger%time.Second != 0:
		return b, kinds.Errorf(kinds.Invalid, "bind: linger %q: use whole seconds, at most %v", b.Linger, maxLinger)
	case b.Mode == Mirror && b.Linger != 0:
		return b, kinds.Errorf(kinds.Invalid, "bind: linger %q: it belongs to mode %s", b.Linger, OnStored)
	case b.Mode == OnStored:
		b.Linger = cmp.Or(b.Linger, DefaultLinger)
	}
	_, bound, full := m.ledger.bindingOf(p)
	if !bound {
		if full {
			return b, kinds.Errorf(kinds.Overloaded, "bind: %d agents are bound, the most there can be: unbind some", maxBindings)
		}
		if err := m.makeAgentFolders(p, take); err != nil {
			return b, err
		}
	}
	if err := m.cfg.DB.Write(ctx, true, func(tx *store.Tx) error { return sqlBind(tx, b) }); err != nil {
		return b, fmt.Errorf("bind: %w", err)
	}
	m.ledger.bind(b)
	return b, nil
}

// makeAgentFolders makes the folders of an agent that is about to be bound.
func (m *Mailer) makeAgentFolders(p mailbox, take bool) error {
	project, err := m.openFolder(path.Join("projects", p.project))
	if errors.Is(err, fs.ErrNotExist) {
		return kinds.Errorf(kinds.NotFound, "bind: there is no project %s in %s: make it with acpctl oacp init %s", p.project, m.cfg.Home, p.project)
	}
	if err != nil {
		return fmt.Errorf("bind: %w: the project's folder must be readable, and no link out of %s", err, m.cfg.Home)
	}
	defer project.Close()
	dir := path.Join("agents", p.agent)
	if !take {
		n, err := countMessages(project, path.Join(dir, outboxDir))
		if err != nil {
			return fmt.Errorf("bind: %w", err)
		}
		if n > 0 {
			return kinds.Errorf(kinds.Invalid, "bind: %s has sent %d messages of project %s from here, so it lives here: bind it with --take if it has moved", p.agent, n, p.project)
		}
	}
	for _, sub := range []string{inboxDir, outboxDir} {
		if err := project.MkdirAll(path.Join(dir, sub), folderMode); err != nil {
			return fmt.Errorf("bind: %w", err)
		}
	}
	if err := m.checkSpelling(p); errors.Is(err, fs.ErrNotExist) {
		return kinds.Errorf(kinds.Invalid, "bind: the folder of %s in project %s is called otherwise, or is a link: name project and agent as their folders are called", p.agent, p.project)
	} else if err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return nil
}

// countMessages counts the messages in a folder, which may be missing.
func countMessages(root *os.Root, dir string) (n int, err error) {
	d, err := root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer d.Close()
	all, err := d.Readdirnames(-1)
	for _, name := range all {
		if strings.HasSuffix(name, extension) && !isHidden(name) {
			n++
		}
	}
	return n, err
}

// Unbind makes an agent one that is hosted here, durably. Its inbox stays as it is.
func (m *Mailer) Unbind(ctx context.Context, project, agent string) (Binding, error) {
	p := mailbox{project, agent}
	if _, bound := m.ledger.boundPeer(p); !bound {
		return Binding{}, errNotBound("unbind", p)
	}
	if err := m.cfg.DB.Write(ctx, true, func(tx *store.Tx) error { return sqlUnbind(tx, p) }); err != nil {
		return Binding{}, fmt.Errorf("unbind: %w", err)
	}
	b := m.ledger.unbind(p)
	m.removeStatusFile(p)
	return b, nil
}

func errNotBound(op string, p mailbox) error {
	return kinds.Errorf(kinds.NotFound, "%s: %.64q of project %.64q is bound to nobody: see acpctl oacp bindings", op, p.agent, p.project)
}

// Bindings returns the bindings of a project, or of all for "", by their names.
func (m *Mailer) Bindings(project string) []Binding { return m.ledger.bindings(project) }

func (p mailbox) compare(q mailbox) int {
	return cmp.Or(cmp.Compare(p.project, q.project), cmp.Compare(p.agent, q.agent))
}
