package daemon

import (
	"context"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/daemon/files"
	"github.com/acpd/acpd/daemon/incoming"
	"github.com/acpd/acpd/daemon/kept"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/outgoing"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/tasks"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
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
func (d *Daemon) openMessages(ctx context.Context) (err error) {
	of := d.messageDeps()
	d.agents = agents.New(of)
	d.kept, err = kept.Open(ctx, kept.Deps{
		Deps: of, Agents: d.agents, DB: d.store, Publish: d.watch.Publish, Hurry: d.options.hurryKept,
		MayCall: func(who registry.Credential, to identity.Peer) error {
			if who == (registry.Credential{}) {
				return nil // the owner
			}
			return outgoing.CheckMayCall(&d.config.Load().Agents, who.Name, to)
		},
		Give: func(ctx context.Context, request kinds.Checked, as registry.Credential) (*kinds.Ack, error) {
			return d.tasks.GiveKept(ctx, request, as)
		},
	})
	if err != nil {
		return err
	}
	d.agents.AddKeptSenders, d.agents.TakeKeptReport, d.sessions.WasKeptFor = d.kept.AddSenders, d.kept.TakeReport, d.kept.WasSentBy
	d.outgoing = outgoing.New(outgoing.Deps{
		Deps: of, Organisation: d.organisation, Kept: d.kept, Config: d.config.Load,
		Ask: func(ctx context.Context, c *local.Conn, r *jsonrpc.Request, p *client.QueryParams) (any, error) {
			return d.tasks.Ask(ctx, c, r, p)
		},
	})
	d.tasks = tasks.New(tasks.Deps{Deps: of, Agents: d.agents, Outgoing: d.outgoing, Kept: d.kept})
	d.incoming = incoming.New(incoming.Deps{Deps: of, Started: d.started, Agents: d.agents, Tasks: d.tasks})
	return nil
}
