package daemon

import (
	"context"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/daemon/incoming"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/outgoing"
	"github.com/acpd/acpd/daemon/tasks"
)

// openMessages opens the services that carry messages between the agents here and peers.
func (d *Daemon) openMessages() {
	d.outgoing = outgoing.New(outgoing.Deps{
		Self: d.id, Name: d.name, Node: d.node, Trust: d.trust, Registry: d.agents, Delegations: d.delegations, Known: d.known, Sessions: d.sessions, Drain: d.drain,
		Peers: d.peers, Organisation: d.organisation, Config: d.config.Load,
		Ask: func(ctx context.Context, c *local.Conn, r *jsonrpc.Request, p *client.QueryParams) (any, error) {
			return d.tasks.Ask(ctx, c, r, p)
		},
	})
	d.attached = agents.New(agents.Deps{
		Registry: d.agents, Trust: d.trust, Node: d.node, Inbox: d.inbox, Repeats: d.repeats, Delegations: d.delegations, Known: d.known, Sessions: d.sessions,
		Permissions: d.permissions, Disk: d.space.Reserve, Budget: d.budget, PeerLog: d.refusalLog, Calls: &d.calls, Log: d.log,
		ResolvePeers: d.peers.ResolveAll, MaxListBytes: d.maxListBytes,
	})
	d.tasks = tasks.New(tasks.Deps{
		Self: d.id, Node: d.node, Trust: d.trust, Registry: d.agents, Delegations: d.delegations, Repeats: d.repeats, Known: d.known, Sessions: d.sessions,
		Agents: d.attached, Outgoing: d.outgoing, Permissions: d.permissions, Drain: d.drain, Space: d.space, Budget: d.budget, Calls: &d.calls, Log: d.log,
		MaxListBytes: d.maxListBytes,
	})
	d.incoming = incoming.New(incoming.Deps{
		Name: d.name, Started: d.started, Registry: d.agents, Delegations: d.delegations, Repeats: d.repeats, Known: d.known, Sessions: d.sessions,
		Agents: d.attached, Tasks: d.tasks, Permissions: d.permissions, Drain: d.drain,
	})
}
