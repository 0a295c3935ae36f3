package daemon

import (
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// checkStreamPermission returns an error unless a peer may begin a stream of mail or of channels.
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
