package meet

import (
	"context"
	"fmt"
	"slices"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
)

// warnRelays warns of each relay in the invitation over which others cannot join, with the reason, and of each that
// the invitation cannot name.
func (v *Verbs) warnRelays(ctx context.Context, inv *client.Invitation, withCredential bool) {
	relays, err := v.Daemon.Relays(ctx)
	if err != nil {
		return // the invitation is what was asked for
	}
	for _, r := range relays {
		switch isNamed, isUsed := slices.Contains(inv.Relays, r.URL), r.State != client.RelayUnused; {
		case isNamed && isUsed:
			v.warnNamedRelay(inv, &r)
		case isNamed: // by another relay of this URL
		case !isUsed:
			v.Warn("warning: %s is left out: %s", r.Name, r.Error)
		case withCredential && !r.Share:
			v.Warn("warning: %s is left out: --with-credential only takes relays whose token may be given away", r.Name)
		}
	}
}

// warnNamedRelay tells what keeps others from joining over a relay that the invitation names.
func (v *Verbs) warnNamedRelay(inv *client.Invitation, r *client.Relay) {
	if r.State != client.RelayUp {
		why := ""
		if r.Error != "" {
			why = ": " + r.Error
		}
		v.Warn("warning: nobody can join over %s while it is %s%s", r.Name, r.State, why)
	}
	if identity.IsLoopbackRelay(r.URL) {
		v.Warn("warning: %s is at %s, where another machine finds itself: add the relay by a name that others reach, or leave it out with --no-relay", r.Name, r.URL)
	}
	if !slices.Contains(inv.Shared, r.URL) {
		v.tellOfRelayLogin(r)
	}
}

// tellOfRelayLogin says what a machine needs to join over a relay whose login is not in the invitation. With nkeys
// that is its own, which join shows if it is missing.
func (v *Verbs) tellOfRelayLogin(r *client.Relay) {
	needs, remedy := "", ""
	switch {
	case r.Login == client.LoginToken && r.Share:
		needs, remedy = "its token", "acpctl invite --with-credential puts it in"
	case r.Login == client.LoginToken && r.Source == client.RelayOfConfig:
		needs, remedy = "its token", "to put it in: share: true in config.yaml, acpctl reload, then acpctl invite --with-credential"
	case r.Login == client.LoginToken:
		needs, remedy = "its token", fmt.Sprintf("to put it in: acpctl relay remove %s, relay add it again with --token-file FILE --share, then acpctl invite --with-credential", r.Name)
	case r.Login == client.LoginPassword:
		needs, remedy = "a user and password", fmt.Sprintf("before it joins, acpctl relay add %s --user USER --password-file FILE there", r.URL)
	case r.Login == client.LoginCredentials:
		needs, remedy = "credentials", fmt.Sprintf("before it joins, acpctl relay add %s --credentials FILE there", r.URL)
	default:
		return
	}
	v.Warn("a machine that joins over %s needs %s, which the invitation does not have: %s", r.Name, needs, remedy)
}
