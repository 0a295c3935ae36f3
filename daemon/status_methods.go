package daemon

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/admin"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

func (d *Daemon) describeSelf() client.Whoami {
	return client.Whoami{
		ID: d.id, Name: d.name, Version: d.options.Version, UptimeSecs: uint64(time.Since(d.started).Seconds()),
		Listen: d.node.LocalAddrs(), HidesAddrs: d.node.StaysOnRelays(), Home: string(d.home),
	}
}

func (d *Daemon) serveWhoami(_ context.Context, s *local.Conn, _ *local.NoParams) (any, error) {
	me := d.describeSelf()
	if s.IsGuest {
		me.Listen, me.Home = []string{}, ""
	}
	return me, nil
}

func (d *Daemon) serveStatus(ctx context.Context, _ *local.Conn, _ *local.NoParams) (any, error) {
	unready := d.readiness.Check(ctx)
	state, active, _ := d.agents.SummarizeLoad()
	if d.drain.IsLeaving() {
		state = client.DaemonDraining
	}
	open := d.delegations.CountOpen()
	process := admin.DescribeProcess()
	process.UDPReceiveBytes, process.UDPSendBytes = d.node.SocketBuffers()
	return &client.Status{
		Whoami: d.describeSelf(), State: state, PeersConnected: len(d.node.Peers()), Agents: d.agents.ListAgents(),
		TasksActive: active, TasksGiven: open.Given, TasksTaken: open.Taken, QuestionsOpen: open.Questions,
		Drain: d.drain.Describe(), Messages: client.MessageCount{In: d.watch.CountMessages(client.In), Out: d.watch.CountMessages(client.Out)},
		Ready: len(unready) == 0, Unready: unready, Relays: d.relays.List(), Warnings: d.listWarnings(),
		Process: process,
	}, nil
}

// servePolicy says what would become of a message of a peer, and by which rule.
func (d *Daemon) servePolicy(_ context.Context, _ *local.Conn, p *client.PolicyParams) (any, error) {
	if !config.IsPolicyKind(p.Kind) {
		return nil, kinds.Errorf(kinds.Invalid, "kind: %.64q is unknown: expected one of %s", p.Kind, strings.Join(config.ListPolicyKinds(), ", "))
	}
	who, err := d.resolvePeer("peer", p.Peer)
	if err != nil {
		return nil, err
	}
	return d.permissions.Describe(who, p.Kind, p.Domain), nil
}

// resolvePeer returns the trusted peer that ref names. The error, which begins with before, says of others what they
// are: for the owner, since guests hear nothing of them.
func (d *Daemon) resolvePeer(before, ref string) (identity.Peer, error) {
	who, err := d.trust.Resolve(ref)
	if err == nil {
		return who, nil
	}
	if _, unknown := errors.AsType[*identity.UnknownPeerError](err); !unknown {
		return who, kinds.Errorf(kinds.UnknownPeer, "%s: %s", before, err)
	}
	if blocked := d.explainBlocked(before, ref); blocked != nil {
		return who, blocked
	}
	for _, s := range d.listStrangers() {
		switch {
		case identity.MatchesClaim(ref, s.Claim):
			return who, kinds.Errorf(kinds.UnknownPeer, "%s: %q is what a stranger calls itself, and nothing of a stranger is taken: if it is the one you mean, acpctl trust %[2]s", before, ref)
		case len(ref) >= 6 && strings.HasPrefix(s.ID.String(), strings.ToLower(ref)):
			return who, kinds.Errorf(kinds.UnknownPeer, "%s: %q is the id of a stranger, and nothing of a stranger is taken: if it is the one you mean, acpctl trust %[2]s", before, ref)
		}
	}
	return who, kinds.Errorf(kinds.UnknownPeer, "%s: %s", before, err)
}

// resolvePeers returns the ids of the peers that a filter names. A guest hears nothing of blocked keys.
func (d *Daemon) resolvePeers(names []string, forGuest bool) ([]identity.ID, error) {
	if len(names) > local.MaxFilterItems {
		return nil, kinds.Errorf(kinds.Invalid, "peers: %d are too many: at most %d", len(names), local.MaxFilterItems)
	}
	ids := make([]identity.ID, 0, len(names))
	for _, name := range names {
		p, err := d.trust.Resolve(name)
		if err != nil && !forGuest {
			if blocked := d.explainBlocked("peers", name); blocked != nil {
				return nil, blocked
			}
		}
		if err != nil {
			return nil, kinds.Errorf(kinds.UnknownPeer, "peers: %s", err)
		}
		ids = append(ids, p.ID)
	}
	return ids, nil
}

// explainBlocked returns the error for a name that means a blocked key, nil for any other.
func (d *Daemon) explainBlocked(op, ref string) error {
	if b, ok := d.findBlockedPeer(ref); ok {
		return newBlockedError(op, ref, b)
	}
	return nil
}
