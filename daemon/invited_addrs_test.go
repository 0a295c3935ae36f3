package daemon

import (
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
)

// An invitation without a relay is in the form that acpd 0.1.0 reads; any other one is short.
func TestInvitationForAnOlderDaemon(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	for _, p := range []client.InviteParams{{}, {NoRelay: true}} {
		var out client.Invitation
		desk.dial().must("invite", p, &out)
		inv, err := identity.ParseInvitation(out.URI)
		want := inv.String()
		if p.NoRelay {
			want = inv.LongString()
		}
		if err != nil || out.URI != want || inv.PQ.IsZero() || len(inv.Addrs) == 0 {
			t.Errorf("%+v: %s, %v", p, out.URI, err)
		}
	}
}
