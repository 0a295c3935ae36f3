package daemon

import (
	"context"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/daemon/files"
	"github.com/acpd/acpd/daemon/incoming"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/outgoing"
	"github.com/acpd/acpd/daemon/tasks"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// messageDeps returns what the services that carry messages need.
func (d *Daemon) messageDeps() agents.Deps {
	return agents.Deps{
		Deps: d.known.Deps, Name: d.name, Registry: d.registry, Trust: d.trust, Node: d.node, Known: d.known, Sessions: d.sessions, Peers: d.peers,
		Permissions: d.permissions, Drain: d.drain, Space: d.space, Budget: d.budget, PeerLog: d.refusalLog, Log: d.log,
	}
}

// openFiles opens the service of files, and hands it the streams that peers open.
func (d *Daemon) openFiles(ctx context.Context) (err error) {
	d.fileService, err = files.Open(ctx, files.Deps{
		Deps: d.messageDeps(), Agents: d.agents, Outgoing: d.outgoing, Dir: string(d.home), DB: d.store, Config: d.config.Load,
		Admit: func(from identity.ID) error { return d.checkStreamPermission(from, config.PolicyFile) },
	})
	if err != nil {
		return err
	}
	d.sessions.Files = d.fileService
	d.node.Handle(wire.StreamFile, config.PolicyFile, func(ctx context.Context, from identity.ID, s *peer.Stream) {
		d.fileService.Serve(store.WithRequester(ctx, from), from, s)
	})
	return nil
}

// openMessages opens the services that carry messages between the agents here and peers.
func (d *Daemon) openMessages() {
	of := d.messageDeps()
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
