package daemon

import (
	"errors"
	"maps"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/admin"
	"github.com/acpd/acpd/daemon/local"
)

// openLocal makes the server of the local API. It defines which connections are in use, and what ends with a
// connection.
func (d *Daemon) openLocal() {
	backup := &admin.Backup{
		Store: d.store, Space: d.space, Version: d.options.Version, Log: d.log,
		SaveFiles: func() error { return errors.Join(d.trust.Save(), d.sessions.Waker.Rules.Save()) },
	}
	usage := &admin.Usage{Budget: d.budget, Space: d.space, ResolvePeer: d.peers.Resolve, NamePeer: d.trust.NameOf, ListLinks: d.peers.ListLinks}
	methods := d.methods()
	for _, of := range []map[string]local.Method{backup.Methods(), usage.Methods(), d.watch.Methods(), d.relays.Methods(), d.spending.Methods(), d.mail.Methods(), d.sessions.Methods(), d.drain.Methods(), d.config.Methods(), d.agents.Methods(), d.outgoing.Methods(), d.tasks.Methods(), d.fileService.Methods(), d.organisation.Methods(), d.peers.Methods()} {
		maps.Copy(methods, of)
	}
	d.local = &local.Server{
		Methods: methods, Agents: d.registry, MaxMessage: func() int { return d.config.Load().MaxMessage }, Log: d.log,
		IsInUse: []func(*local.Conn) bool{d.watch.IsUsing},
		Ended: []func(*local.Conn){
			d.watch.EndConn, d.agents.EndConn, backup.Release,
		},
	}
}

// methods returns the methods that no service has: the function that serves each, and its callers.
// Nothing but this table and those of the services decides who may call a method. Which rows and messages
// an agent gets from it, the method decides.
func (d *Daemon) methods() map[string]local.Method {
	return map[string]local.Method{
		client.MethodWhoami: local.ForAgents(d.serveWhoami),
		client.MethodStatus: local.ForOwner(d.serveStatus),
		client.MethodPolicy: local.ForOwner(d.servePolicy),
	}
}

// maxListBytes returns how many bytes of a line the rows of one answer may fill. The rest is
// for the JSON around them.
func (d *Daemon) maxListBytes() int { return d.config.Load().MaxMessage + jsonrpc.LineMargin/2 }
