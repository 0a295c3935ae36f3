package daemon

import (
	"context"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/kinds"
)

func (d *Daemon) describeSelf() client.Whoami {
	return client.Whoami{
		ID: d.id, Name: d.name, Version: d.options.Version, UptimeSecs: uint64(time.Since(d.started).Seconds()),
		Listen: d.node.LocalAddrs(), Home: string(d.home),
	}
}

func (d *Daemon) serveWhoami(_ context.Context, s *localConn, _ *noParams) (any, error) {
	me := d.describeSelf()
	if s.isGuest {
		me.Listen, me.Home = []string{}, ""
	}
	return me, nil
}

func (d *Daemon) serveStatus(ctx context.Context, _ *localConn, _ *noParams) (any, error) {
	unready := d.checkReadiness(ctx)
	state, active, _ := d.agents.SummarizeLoad()
	if d.draining.Load() {
		state = client.DaemonDraining
	}
	open := d.delegations.CountOpen()
	return &client.Status{
		Whoami: d.describeSelf(), State: state, PeersConnected: len(d.node.Peers()), Agents: d.agents.ListAgents(),
		TasksActive: active, TasksGiven: open.Given, TasksTaken: open.Taken, QuestionsOpen: open.Questions,
		Messages: client.MessageCount{In: listNonZeroCounts(d.messages.received), Out: listNonZeroCounts(d.messages.sent)},
		Ready:    len(unready) == 0, Unready: unready, Warnings: d.listWarnings(),
	}, nil
}

func (d *Daemon) servePolicy(_ context.Context, _ *localConn, p *client.PolicyParams) (any, error) {
	who, err := d.trust.Resolve(p.Peer)
	if err != nil {
		return nil, kinds.Errorf(kinds.UnknownPeer, "peer: %s", err)
	}
	if !config.IsPolicyKind(p.Kind) {
		return nil, kinds.Errorf(kinds.Invalid, "policy: kind: %.64q is none: expected one of %s", p.Kind, strings.Join(config.ListPolicyKinds(), ", "))
	}
	decision := d.permissions.decideByPolicy(who, p.Kind, p.Domain)
	return &client.Policy{Allowed: decision.Allowed, Rule: decision.Rule}, nil
}
