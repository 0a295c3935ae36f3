package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/durable"
)

// readOrganisation reads the files that the settings of certificates name. The error is of those of
// authorities: what they have revoked must be known.
func (d *Daemon) readOrganisation(cfg *config.Config) (authorities []identity.Authority, own ownCertificate, err error) {
	o := &cfg.Organisation
	for _, name := range slices.Sorted(maps.Keys(o.Authorities)) {
		a := identity.Authority{Name: name}
		if file := o.Authorities[name].Revoked; file != "" {
			at := fmt.Sprintf("organisation.authorities.%s.revoked", name)
			data, err := d.readStateFile(file, identity.MaxRevocationFile)
			if err != nil {
				return nil, own, fmt.Errorf("%s: %w; write it, or remove the setting", at, err)
			}
			if a.Revoked, err = identity.ParseRevocations(data); err != nil {
				return nil, own, fmt.Errorf("%s: %s: %w", at, file, err)
			}
		}
		for _, line := range []string{o.Authorities[name].Key, o.Authorities[name].NextKey} {
			if line == "" {
				continue
			}
			if a.Key, err = identity.ParseAuthorityKey(line); err != nil {
				return nil, own, fmt.Errorf("organisation.authorities.%s: %w", name, err)
			}
			authorities = append(authorities, a)
		}
	}
	if o.Certificate != "" {
		own = d.readOwnCertificate(o.Certificate)
	}
	return authorities, own, nil
}

// findStateFile returns the path of a file that a setting names: in the state directory, or elsewhere.
func (d *Daemon) findStateFile(name string) (string, error) {
	if rest, inHome := strings.CutPrefix(name, "~/"); inHome {
		user, err := os.UserHomeDir()
		return filepath.Join(user, rest), err
	}
	if filepath.IsAbs(name) {
		return name, nil
	}
	return d.home.filePath(name), nil
}

// readStateFile reads a file that a setting names, of at most so many bytes.
func (d *Daemon) readStateFile(name string, most int64) ([]byte, error) {
	path, err := d.findStateFile(name)
	if err != nil {
		return nil, err
	}
	data, err := durable.ReadRegularFile(path, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s", path)
	}
	return data, err
}

// applyOrganisation makes what readOrganisation has read count. Connections of peers that lose their
// certificate by it end soon after. In the place of a certificate that cannot be read, as one that is
// being written, this daemon shows the one that it showed before: to show none would end connections.
func (d *Daemon) applyOrganisation(cfg *config.Config, authorities []identity.Authority, own ownCertificate) {
	if before := d.ownCertificate.Load(); own.err != nil && before != nil && before.raw != nil {
		own.raw, own.says = before.raw, before.says
		own.err = fmt.Errorf("%w; until then the one before is shown", own.err)
	}
	d.ownCertificate.Store(&own)
	d.trust.SetAuthorities(authorities)
	d.node.SetCertificate(own.raw)
	for ref := range cfg.Peers { // keys that show at those addresses that they are peers
		if id, err := identity.ParseID(ref); err == nil {
			d.updateAddrTable(id)
		}
	}
	d.setNameOnRelays()
	d.organisationChanged.Set()
}

// handleDecertified forgets what is kept in memory of a key that has lost its certificate. What it has
// sent stays, as the work of a peer does that is not connected, and so do the outcomes for its repeats:
// it may renew its certificate, and repeat a message whose receipt was lost.
func (d *Daemon) handleDecertified(id identity.ID) {
	d.refusalLog.WriteLimited(id, slog.LevelInfo, "certificate ended", "peer", id.Label())
	d.budget.ForgetRefusals(id)
	d.refusers.Delete(id)
	d.capabilities.forgetPeer(id)
	d.shownChains.forgetPeer(id)
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
