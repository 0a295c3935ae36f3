package daemon

import (
	"context"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/admin"
	"github.com/acpd/acpd/daemon/local"
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
	state, active, _ := d.registry.SummarizeLoad()
	if d.drain.IsLeaving() {
		state = client.DaemonDraining
	}
	open := d.delegations.CountOpen()
	process := admin.DescribeProcess()
	process.UDPReceiveBytes, process.UDPSendBytes = d.node.SocketBuffers()
	return &client.Status{
		Whoami: d.describeSelf(), State: state, PeersConnected: len(d.node.Peers()), Agents: d.registry.ListAgents(),
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
	who, err := d.peers.Resolve("peer", p.Peer)
	if err != nil {
		return nil, err
	}
	return d.permissions.Describe(who, p.Kind, p.Domain), nil
}
