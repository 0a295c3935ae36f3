package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/yamldoc"
	"github.com/acpd/acpd/kinds"
)

const maxAuthorities = 16

// defaultAllow are the kinds that an authority allows its peers without a setting.
var defaultAllow = []string{kinds.KindPing, kinds.KindDiscover}

// checkOrganisation reports authorities that cannot sign or have no key, and other mistakes in the section.
func (p *parser) checkOrganisation(o *Organisation) {
	p.AddValueError("organisation.certificate", checkStatePath(o.Certificate))
	if len(o.Authorities) > maxAuthorities {
		p.AddValueError("organisation.authorities", ownwords.Errorf("%d authorities: give at most %d", len(o.Authorities), maxAuthorities))
	}
	of := make(map[identity.AuthorityKey]string)
	for _, name := range slices.Sorted(maps.Keys(o.Authorities)) {
		a, at := o.Authorities[name], yamldoc.JoinKey("organisation.authorities", name)
		p.AddValueError(at, identity.CheckName(name))
		if !p.IsSet(at + ".key") {
			p.AddValueError(at, ownwords.Errorf("no key: add key"))
			continue
		}
		p.AddValueError(at+".key", checkAuthorityKey(of, name, a.Key))
		if a.NextKey != "" {
			p.AddValueError(at+".next_key", checkAuthorityKey(of, name, a.NextKey))
		}
		p.AddValueError(at+".revoked", checkStatePath(a.Revoked))
		for i, kind := range a.Allow {
			item := fmt.Sprintf("%s.allow[%d]", at, i)
			if slices.Contains(bridgeWords, kind) { // it keeps what comes on the disk: policy names who may send it
				p.AddValueError(item, ownwords.Errorf("%q: no authority allows it to all of its peers: write a rule under policy for a name or a group", kind))
				continue
			}
			p.checkOneOf(item, kind, kinds.ListNames(kinds.Policed)...)
		}
	}
}

// checkAuthorityKey returns an error unless the line is a key that no authority has yet, and enters it.
func checkAuthorityKey(of map[identity.AuthorityKey]string, name, line string) error {
	key, err := identity.ParseAuthorityKey(line)
	if err == nil && of[key] != "" {
		return ownwords.Errorf("the key of %s: one key is one authority: remove one", of[key])
	}
	of[key] = name
	return err
}

// checkStatePath returns an error unless the path means the same wherever the daemon is started: a
// file in the state directory, or a path that [checkFolderPath] takes.
func checkStatePath(s string) error {
	if s != "" && s == filepath.Base(s) && !strings.HasPrefix(s, ".") && !strings.HasPrefix(s, "~") {
		return nil
	}
	if err := checkFolderPath(s); err != nil {
		return ownwords.Errorf("%s: use the name of a file in the state directory, or a path that begins with / or ~/", yamldoc.Quote(s))
	}
	return nil
}

// Decide returns whether a peer may initiate a message of kind that names domain, "" for none, by
// [Policy.Decide]. For a peer that has only a certificate, the rule of its id decides, else that of its name,
// else those of its groups, and one that allows is enough, else the setting allow of its authority. The rule
// of "*" does not apply to it.
func (c *Config) Decide(who identity.Peer, kind, domain string) Decision {
	if who.Certificate == nil {
		return c.Policy.Decide(who.ID, who.Name, kind, domain)
	}
	if slices.Contains(freeKinds, kind) {
		return newFreeDecision(kind)
	}
	for _, key := range []string{who.ID.String(), who.Name} {
		if r, ok := c.Policy[key]; ok {
			return r.decide(key, kind, domain)
		}
	}
	var last Decision
	for _, group := range who.Certificate.Groups {
		key := identity.GroupRefPrefix + group
		if r, ok := c.Policy[key]; ok {
			if last = r.decide(key, kind, domain); last.Allowed {
				return last
			}
		}
	}
	if last.Key != "" {
		return last
	}
	name := who.Certificate.Authority
	at := yamldoc.JoinKey("organisation.authorities", name)
	allowed := c.Organisation.Authorities[name].ListAllowed()
	if slices.Contains(allowed, kind) {
		return Decision{true, fmt.Sprintf("%s: allows %s", at, yamldoc.Quote(kind)), at}
	}
	return Decision{false, fmt.Sprintf("%s: allow [%s] does not include %s, and policy has no rule for %s or its groups", at, strings.Join(allowed, ", "), yamldoc.Quote(kind), who.Name), at}
}

// IsOfAuthority reports whether a name or group in a setting is one that a configured authority
// gives, so that a certificate with it may come at any time.
func (c *Config) IsOfAuthority(ref string) bool {
	_, authority, ok := strings.Cut(ref, ".")
	_, known := c.Organisation.Authorities[authority]
	return ok && known
}
