package daemon

import (
	"cmp"
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/transfer"
	"github.com/acpd/acpd/wire"
)

// policyMail is the word of a policy for the mail that a peer sends.
const policyMail = "mail"

// openMail opens the transfer of OACP mail; it uses the node only when it runs.
func (d *Daemon) openMail(ctx context.Context, cfg *config.Config) (err error) {
	var carried func(bool, string)
	if d.measures != nil {
		carried = d.measures.countMail
	}
	d.mail, err = transfer.OpenMailer(ctx, transfer.Config{
		Home: d.mailHome, DB: d.store, Budget: d.budget, Descriptors: int64(d.files.Peers), PeerLog: d.refusalLog, Log: d.log, Name: d.peerName, Event: d.handleMailEvent, Carried: carried,
		Open: func(ctx context.Context, to identity.ID) (transfer.Stream, error) {
			return d.node.OpenStream(ctx, to, wire.StreamMail)
		},
		Admit: func(from identity.ID) error {
			if err := d.checkStreamPermission(from, policyMail); err != nil {
				return err
			}
			return d.space.CheckMailRoom(from)
		},
		Trusted: func(id identity.ID) bool { _, ok := d.trust.FindPeer(id); return ok },
	})
	return err
}

// resolveOACPHome returns the folder of the mailboxes: as configured, else $OACP_HOME, else
// ~/oacp.
func resolveOACPHome(home string) (string, error) {
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

// handleMailEvent publishes an event of mail. It does not block.
func (d *Daemon) handleMailEvent(e transfer.Event) {
	d.watch.Publish(client.EventMail, e.Peer, d.peerName(e.Peer), time.Now(), &client.MailEvent{
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

func (d *Daemon) describeBinding(b transfer.Binding) client.OACPBinding {
	return client.OACPBinding{Project: b.Project, Agent: b.Agent, Peer: d.peerName(b.Peer), Mode: client.BindingMode(b.Mode), LingerSecs: uint64(b.Linger / time.Second)}
}

func (d *Daemon) serveOACPBind(ctx context.Context, _ *local.Conn, p *client.OACPBindParams) (any, error) {
	if len(p.Peer) >= 6 && strings.HasPrefix(d.id.String(), strings.ToLower(p.Peer)) {
		return nil, kinds.Errorf(kinds.Invalid, "bind: %s is this daemon itself: name the machine where the agent lives, and bind no agent that lives here", d.id.Label())
	}
	to, err := d.resolvePeer("bind", p.Peer)
	if err != nil {
		return nil, err
	}
	const longest = 1 << 31 // so that it is a duration; that of package transfer is lower
	b, err := d.mail.Bind(ctx, transfer.Binding{
		Project: p.Project, Agent: p.Agent, Peer: to.ID, Mode: string(p.Mode), Linger: time.Duration(min(p.LingerSecs, longest)) * time.Second,
	}, p.Take)
	if err != nil {
		return nil, err
	}
	d.log.Info("agent bound", "project", b.Project, "agent", b.Agent, "peer", to.ID.Label(), "mode", b.Mode)
	return d.describeBinding(b), nil
}

func (d *Daemon) serveOACPUnbind(ctx context.Context, _ *local.Conn, p *client.OACPUnbindParams) (any, error) {
	b, err := d.mail.Unbind(ctx, p.Project, p.Agent)
	if err != nil {
		return nil, err
	}
	d.log.Info("agent unbound", "project", b.Project, "agent", b.Agent, "peer", b.Peer.Label())
	return d.describeBinding(b), nil
}

func (d *Daemon) serveOACPBindings(_ context.Context, _ *local.Conn, p *client.OACPBindingsParams) (any, error) {
	out := &client.OACPBindings{Bindings: []client.OACPBinding{}, Home: d.mailHome}
	for _, b := range d.mail.Bindings(p.Project) {
		out.Bindings = append(out.Bindings, d.describeBinding(b))
	}
	for _, t := range d.mail.ListTwinAgents(p.Project) {
		out.Twins = append(out.Twins, client.OACPTwin{Project: t.Project, Agent: t.Agent, Peer: d.peerName(t.Peer)})
	}
	return out, nil
}

func (d *Daemon) describeQueuedMail(q *transfer.Queued) client.OACPQueued {
	return client.OACPQueued{
		Project: q.Project, Agent: q.Agent, Peer: d.peerName(q.Peer), File: replaceInvalidUTF8(q.File), SHA256: encodeHash(q.Hash),
		Size: q.Size, State: client.MailState(q.State), Reason: replaceInvalidUTF8(q.Reason), Since: q.Since.UTC(),
	}
}

// serveOACPQueue lists the mail for other machines, as much as fits, or traces one file.
func (d *Daemon) serveOACPQueue(ctx context.Context, _ *local.Conn, p *client.OACPQueueParams) (any, error) {
	out := &client.OACPQueue{Entries: []client.OACPQueued{}, Home: d.mailHome}
	switch whole := p.Project != "" && p.Agent != "" && p.File != ""; {
	case whole:
		q, err := d.mail.TraceFile(ctx, p.Project, p.Agent, p.File)
		if q != nil {
			out.Entries = append(out.Entries, d.describeQueuedMail(q))
		}
		return out, err
	case p.Agent != "" || p.File != "":
		return nil, kinds.Errorf(kinds.Invalid, "queue: one file is asked for by project, agent and file, all three")
	}
	room := d.maxListBytes() - wire.MaxJSONLength(d.mailHome)
	cursor := func(q transfer.Queued) string { return replaceInvalidUTF8(q.Project + "/" + q.Agent + "/" + q.File) }
	last := p.After
	for _, q := range d.mail.ListQueue(p.Project) {
		if cursor(q) <= p.After {
			continue
		}
		room -= 512 + wire.MaxJSONLength(q.Project+q.File+q.Reason)
		if room < 0 && len(out.Entries) > 0 {
			out.Next = last
			break
		}
		last = cursor(q)
		out.Entries = append(out.Entries, d.describeQueuedMail(&q))
	}
	return out, nil
}

// replaceInvalidUTF8 returns a name from a disk as text that JSON can hold.
func replaceInvalidUTF8(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

func (d *Daemon) serveOACPDrop(ctx context.Context, _ *local.Conn, p *client.OACPDropParams) (any, error) {
	path, err := d.mail.DropFile(ctx, p.Project, p.Agent, p.File)
	if err != nil {
		return nil, err
	}
	return &client.OACPDropped{Path: path}, nil
}
