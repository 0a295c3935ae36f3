package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
)

// readOrganisation reads the files that the settings of certificates name. The error is of those of
// authorities: what they have revoked must be known.
func (d *Daemon) readOrganisation(cfg *config.Config) (authorities []identity.Authority, own ownCertificate, err error) {
	o := &cfg.Organisation
	for _, name := range slices.Sorted(maps.Keys(o.Authorities)) {
		as, err := o.ReadAuthority(name, string(d.home))
		if err != nil {
			return nil, own, err
		}
		authorities = append(authorities, as...)
	}
	if o.Certificate != "" {
		own = d.readOwnCertificate(o)
	}
	return authorities, own, nil
}

// applyOrganisation makes what readOrganisation has read count. Connections of peers that lose their
// certificate by it end soon after. In the place of a certificate that cannot be read, as one that is
// being written, this daemon shows the one that it showed before: to show none would end connections.
func (d *Daemon) applyOrganisation(cfg *config.Config, authorities []identity.Authority, own ownCertificate) {
	if before := d.ownCertificate.Load(); own.err != nil && before != nil && before.raw != nil {
		own.raw, own.says = before.raw, before.says
		own.err = ownwords.Errorf("%w; until then the one before is shown", own.err)
	}
	d.ownCertificate.Store(&own)
	d.trust.SetAuthorities(authorities)
	d.node.SetCertificate(own.raw)
	for ref := range cfg.Peers { // keys that show at those addresses that they are peers
		if id, err := identity.ParseID(ref); err == nil {
			d.updateAddrTable(id)
		}
	}
	d.relays.UpdateNames()
	d.organisationChanged.Set()
}

// listFileChanges returns in what the files that readOrganisation has read differ from what counts, as changes of the
// settings that name them.
func (d *Daemon) listFileChanges(authorities []identity.Authority, own ownCertificate) (all []client.SettingChange) {
	if before := d.ownCertificate.Load(); before != nil && before.raw != nil && own.raw != nil && !bytes.Equal(before.raw, own.raw) {
		all = append(all, client.SettingChange{Setting: "organisation.certificate", From: before.describe(), To: own.describe()})
	}
	counted := make(map[string]*identity.Revocations)
	for _, a := range d.trust.Authorities() {
		counted[a.Name] = a.Revoked
	}
	for _, a := range authorities {
		if before := counted[a.Name]; before != nil && a.Revoked != nil && !reflect.DeepEqual(before, a.Revoked) {
			all = append(all, client.SettingChange{Setting: fmt.Sprintf("organisation.authorities.%s.revoked", a.Name), From: fmt.Sprintf("%d revoked", before.Count()), To: fmt.Sprintf("%d revoked", a.Revoked.Count())})
		}
		delete(counted, a.Name) // it may have two keys
	}
	return all
}

// handleDecertified forgets what is kept in memory of a key that has lost its certificate. What it has
// sent stays, as the work of a peer does that is not connected, and so do the outcomes for its repeats:
// it may renew its certificate, and repeat a message whose receipt was lost.
func (d *Daemon) handleDecertified(id identity.ID) {
	d.refusalLog.WriteLimited(id, slog.LevelInfo, "certificate ended", "peer", id.Label())
	d.budget.ForgetRefusals(id)
	d.refusers.Delete(id)
	d.outgoing.Forget(id)
	d.known.ForgetPeer(id)
	d.updateAddrTable(id)
}

// isTrustedByOwner reports whether the owner trusts a key, and not an authority alone.
func (d *Daemon) isTrustedByOwner(id identity.ID) bool {
	p, ok := d.trust.FindPeer(id)
	return ok && p.Certificate == nil
}

// findFleetName is [budget.Book.Certified]: it reports whether a key is that of another daemon which the
// owner does not trust, and the name in its certificate, "" if it has none now.
func (d *Daemon) findFleetName(id identity.ID) (name string, ok bool) {
	if budget.AreStrangers(id) || id == d.id || d.isTrustedByOwner(id) {
		return "", false
	}
	name, _ = d.trust.IsCertified(id)
	return name, true
}
