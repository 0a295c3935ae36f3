package daemon

import (
	"context"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/mail"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/transfer"
	"github.com/acpd/acpd/wire"
)

// openMail opens the transfer of OACP mail, whose mailboxes are in home; it uses the node only when it runs.
func (d *Daemon) openMail(ctx context.Context, home string) (err error) {
	of := transfer.Config{
		Home: home, DB: d.store, Budget: d.budget, Descriptors: int64(d.files.Peers), PeerLog: d.refusalLog, Log: d.log, Name: d.trust.NameOf, Carried: d.measures.CountMail,
		Open: func(ctx context.Context, to identity.ID) (transfer.Stream, error) {
			return d.node.OpenStream(ctx, to, wire.StreamMail)
		},
		Admit: func(from identity.ID) error {
			if err := d.checkStreamPermission(from, config.PolicyMail); err != nil {
				return err
			}
			return d.space.CheckMailRoom(from)
		},
		Trusted: func(id identity.ID) bool { _, ok := d.trust.FindPeer(id); return ok },
	}
	d.mail, err = mail.Open(ctx, mail.Deps{
		Config: of, ID: d.id, Reserve: d.space.Reserve, MaxListBytes: d.maxListBytes, Resolve: d.peers.Resolve, Publish: d.watch.Publish,
	})
	return err
}

// checkStreamPermission returns an error unless a peer may begin a stream of mail, of channels or of a file.
func (d *Daemon) checkStreamPermission(from identity.ID, kind string) error {
	p, ok := d.trust.FindPeer(from)
	if !ok {
		return kinds.Errorf(kinds.NotAuthorized, "you are not trusted there any more")
	}
	if err := d.permissions.CheckAllowed(p, kind, ""); err != nil {
		return err
	}
	return d.drain.CheckTakesWork()
}
