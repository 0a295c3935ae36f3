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
	of := agents.Deps{
		Deps: d.known.Deps, Name: d.name, Registry: d.registry, Trust: d.trust, Node: d.node, Known: d.known, Sessions: d.sessions, Peers: d.peers,
		Permissions: d.permissions, Drain: d.drain, Space: d.space, Budget: d.budget, PeerLog: d.refusalLog, Log: d.log,
	}
	d.outgoing = outgoing.New(outgoing.Deps{
		Deps: of, Organisation: d.organisation, Config: d.config.Load,
		Ask: func(ctx context.Context, c *local.Conn, r *jsonrpc.Request, p *client.QueryParams) (any, error) {
			return d.tasks.Ask(ctx, c, r, p)
		},
	})
	d.agents = agents.New(of)
	d.tasks = tasks.New(tasks.Deps{Deps: of, Agents: d.agents, Outgoing: d.outgoing})
	d.incoming = incoming.New(incoming.Deps{Deps: of, Started: d.started, Agents: d.agents, Tasks: d.tasks})
}
