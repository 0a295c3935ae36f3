// Package mail serves the methods of the local API for OACP mail, and publishes what becomes of mail.
// It leaves to package transfer how mail is carried between machines.
package mail

import (
	"cmp"
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/transfer"
	"github.com/acpd/acpd/wire"
)

// Deps is what mail needs of its daemon.
type Deps struct {
	transfer.Config // Open sets Event

	ID           identity.ID   // of the daemon
	Reserve      *disk.Reserve // for methods that free space
	MaxListBytes func() int    // how many bytes the rows of one answer may have

	// Resolve returns the trusted peer that a name or the beginning of an id means.
	Resolve func(op, ref string) (identity.Peer, error)
	// Publish hands an event to the subscribers of the local API.
	Publish func(typ client.EventType, id identity.ID, name string, at time.Time, details any)
}

// Service carries the mail of one daemon.
type Service struct {
	*transfer.Mailer
	Deps
}

// Open opens the transfer of mail. It uses the connections to peers only when it runs.
func Open(ctx context.Context, deps Deps) (s *Service, err error) {
	s = &Service{Deps: deps}
	s.Event = s.publish
	s.Mailer, err = transfer.OpenMailer(ctx, s.Config)
	return s, err
}

// ResolveHome returns the folder of the mailboxes: as configured, else $OACP_HOME, else
// ~/oacp.
func ResolveHome(home string) (string, error) {
	home, err := shellpath.ExpandTilde(cmp.Or(home, os.Getenv("OACP_HOME"), "~/oacp"))
	if err != nil {
		return "", ownwords.Errorf("OACP home: %w with oacp.home in config.yaml", err)
	}
	abs, err := filepath.Abs(home)
	if err != nil {
		return "", ownwords.Errorf("OACP home: %w", err)
	}
	return abs, nil
}

// Methods returns the methods of the local API for mail.
func (s *Service) Methods() map[string]local.Method {
	return map[string]local.Method{
		client.MethodOACPBind:     local.ForOwner(s.serveBind),
		client.MethodOACPUnbind:   local.ForOwner(s.serveUnbind).WithDiskReserve(s.Reserve),
		client.MethodOACPBindings: local.ForOwner(s.serveBindings),
		client.MethodOACPQueue:    local.ForOwner(s.serveQueue),
		client.MethodOACPDrop:     local.ForOwner(s.serveDrop).WithDiskReserve(s.Reserve),
	}
}

// publish publishes an event of mail. It does not block.
func (s *Service) publish(e transfer.Event) {
	s.Publish(client.EventMail, e.Peer, s.Name(e.Peer), time.Now(), &client.MailEvent{
		Project: e.Project, Agent: e.Agent, File: e.File, SHA256: encodeHash(e.Hash), State: client.MailState(e.State), Reason: e.Reason,
	})
}

// encodeHash returns a hash as text, "" for none.
func encodeHash(sum [32]byte) string {
	if sum == [32]byte{} {
		return ""
	}
	return hex.EncodeToString(sum[:])
}

func (s *Service) describeBinding(b transfer.Binding) client.OACPBinding {
	return client.OACPBinding{Project: b.Project, Agent: b.Agent, Peer: s.Name(b.Peer), Mode: client.BindingMode(b.Mode), LingerSecs: uint64(b.Linger / time.Second)}
}

func (s *Service) serveBind(ctx context.Context, _ *local.Conn, p *client.OACPBindParams) (any, error) {
	if len(p.Peer) >= 6 && strings.HasPrefix(s.ID.String(), strings.ToLower(p.Peer)) {
		return nil, kinds.Errorf(kinds.Invalid, "bind: %s is this daemon itself: name the machine where the agent lives, and bind no agent that lives here", s.ID.Label())
	}
	to, err := s.Resolve("bind", p.Peer)
	if err != nil {
		return nil, err
	}
	const longest = 1 << 31 // so that it is a duration; that of package transfer is lower
	b, err := s.Bind(ctx, transfer.Binding{
		Project: p.Project, Agent: p.Agent, Peer: to.ID, Mode: string(p.Mode), Linger: time.Duration(min(p.LingerSecs, longest)) * time.Second,
	}, p.Take)
	if err != nil {
		return nil, err
	}
	s.Log.Info("agent bound", "project", b.Project, "agent", b.Agent, "peer", to.ID.Label(), "mode", b.Mode)
	return s.describeBinding(b), nil
}

func (s *Service) serveUnbind(ctx context.Context, _ *local.Conn, p *client.OACPUnbindParams) (any, error) {
	b, err := s.Unbind(ctx, p.Project, p.Agent)
	if err != nil {
		return nil, err
	}
	s.Log.Info("agent unbound", "project", b.Project, "agent", b.Agent, "peer", b.Peer.Label())
	return s.describeBinding(b), nil
}

func (s *Service) serveBindings(_ context.Context, _ *local.Conn, p *client.OACPBindingsParams) (any, error) {
	out := &client.OACPBindings{Bindings: []client.OACPBinding{}, Home: s.Home}
	for _, b := range s.Bindings(p.Project) {
		out.Bindings = append(out.Bindings, s.describeBinding(b))
	}
	for _, t := range s.ListTwinAgents(p.Project) {
		out.Twins = append(out.Twins, client.OACPTwin{Project: t.Project, Agent: t.Agent, Peer: s.Name(t.Peer)})
	}
	return out, nil
}

func (s *Service) describeQueued(q *transfer.Queued) client.OACPQueued {
	return client.OACPQueued{
		Project: q.Project, Agent: q.Agent, Peer: s.Name(q.Peer), File: replaceInvalidUTF8(q.File), SHA256: encodeHash(q.Hash),
		Size: q.Size, State: client.MailState(q.State), Reason: replaceInvalidUTF8(q.Reason), Since: q.Since.UTC(),
	}
}

// serveQueue lists the mail for other machines, as much as fits, or traces one file.
func (s *Service) serveQueue(ctx context.Context, _ *local.Conn, p *client.OACPQueueParams) (any, error) {
	out := &client.OACPQueue{Entries: []client.OACPQueued{}, Home: s.Home}
	switch whole := p.Project != "" && p.Agent != "" && p.File != ""; {
	case whole:
		q, err := s.TraceFile(ctx, p.Project, p.Agent, p.File)
		if q != nil {
			out.Entries = append(out.Entries, s.describeQueued(q))
		}
		return out, err
	case p.Agent != "" || p.File != "":
		return nil, kinds.Errorf(kinds.Invalid, "queue: one file is asked for by project, agent and file, all three")
	}
	room := s.MaxListBytes() - wire.MaxJSONLength(s.Home)
	cursor := func(q transfer.Queued) string { return replaceInvalidUTF8(q.Project + "/" + q.Agent + "/" + q.File) }
	last := p.After
	for _, q := range s.ListQueue(p.Project) {
		if cursor(q) <= p.After {
			continue
		}
		room -= 512 + wire.MaxJSONLength(q.Project+q.File+q.Reason)
		if room < 0 && len(out.Entries) > 0 {
			out.Next = last
			break
		}
		last = cursor(q)
		out.Entries = append(out.Entries, s.describeQueued(&q))
	}
	return out, nil
}

// replaceInvalidUTF8 returns a name from a disk as text that JSON can hold.
func replaceInvalidUTF8(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

func (s *Service) serveDrop(ctx context.Context, _ *local.Conn, p *client.OACPDropParams) (any, error) {
	path, err := s.DropFile(ctx, p.Project, p.Agent, p.File)
	if err != nil {
		return nil, err
	}
	return &client.OACPDropped{Path: path}, nil
}
