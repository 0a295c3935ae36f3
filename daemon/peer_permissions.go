package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/acpd/acpd/daemon/settings"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// warnOfNewNameHolder logs and returns a warning if settings that name a peer by this
// petname now count for another key than before. Else it returns "".
func (d *Daemon) warnOfNewNameHolder(p identity.Peer) string {
	before := d.permissions.RecordNameHolder(p)
	if before.IsZero() || before == p.ID {
		return ""
	}
	which := d.listSettingsNaming(p.Name)
	if len(which) == 0 {
		return ""
	}
	warning := fmt.Sprintf("%s in config.yaml names %s, which was %s and is %s now: name peers by their ids there if that is not meant",
		strings.Join(which, ", "), p.Name, before.Label(), p.ID.Label())
	d.log.Warn("settings pass to another key", "name", p.Name, "warning", warning)
	return warning
}

// listSettingsNaming returns the settings that name a peer by this petname.
func (d *Daemon) listSettingsNaming(name string) []string {
	return slices.Sorted(maps.Keys(d.config.Load().FindPeerRefs(func(ref string) bool { return ref == name })))
}

// describeKeptName says why a peer that calls itself claim has that name with a number, and how it gets
// the name. It returns "" if nothing but another peer's name keeps the claim from it.
func (d *Daemon) describeKeptName(p identity.Peer, claim string) string {
	claim = strings.ToLower(claim)
	number, isNumbered := strings.CutPrefix(p.Name, claim+"-")
	if !isNumbered || strings.Trim(number, "0123456789") != "" || d.isNameTaken(claim) || !d.trust.IsKeptFromClaims(claim) {
		return ""
	}
	why := "was that of a key that you untrusted"
	if which := d.listSettingsNaming(claim); len(which) > 0 {
		why = "is one that " + strings.Join(which, ", ") + " in config.yaml mentions"
	}
	return fmt.Sprintf("%s calls itself %s, and did not get that name, which %s: if it is that machine, acpctl trust %s --name %s; until then no rule for %s is for it, and it may send what any trusted peer may", p.Name, claim, why, p.ID, claim, claim)
}

// listKeptNames describes the connected peers that have a number in their names because the name
// that they claim is kept from claims.
func (d *Daemon) listKeptNames() (all []string) {
	for _, now := range d.node.Peers() {
		if p, ok := d.trust.FindPeer(now.ID); ok && p.Certificate == nil {
			if why := d.describeKeptName(p, now.Claim); why != "" && len(all) < settings.MaxNamesInWarning {
				all = append(all, why)
			}
		}
	}
	return all
}

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
