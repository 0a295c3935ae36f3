package meet

import (
	"context"
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
	switch {
	case r.Login == client.LoginToken && r.Share:
		v.Warn("a machine that joins over %s needs its token, which the invitation does not have: acpctl invite --with-credential puts it in", r.Name)
	case r.Login == client.LoginToken, r.Login == client.LoginPassword, r.Login == client.LoginCredentials:
		v.Warn("a machine that joins over %s needs a login there, which the invitation does not have: before it joins, acpctl relay add %s there, as relay add --help says", r.Name, r.URL)
	}
}
