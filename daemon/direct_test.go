package daemon

import (
	"slices"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/peer"
)

// TestDirectOff has a daemon that is told to stay on relays: its hello does not offer to look for
// a direct path.
func TestDirectOff(t *testing.T) {
	dir := stateDir(t)
	writeConfig(t, dir, "reach: {direct: off, stun: [\"127.0.0.1:3478\"]}\n")
	desk, laptop := start(t, dir, "desk"), start(t, stateDir(t), "laptop")
	befriend(t, desk, laptop)
	off, _ := laptop.node.Peer(desk.ID())
	on, _ := desk.node.Peer(laptop.ID())
	if slices.Contains(off.Features, peer.FeaturePaths) || !slices.Contains(on.Features, peer.FeaturePaths) {
		t.Errorf("features %v where it is off, %v where it is on", off.Features, on.Features)
	}
}

// TestInvitationsWithoutAddresses has a daemon that is told to stay on relays invite: the invitation
// names no address, unless no relay leads to the daemon.
func TestInvitationsWithoutAddresses(t *testing.T) {
	t.Parallel()
	for direct, want := range map[string]struct{ withRelay, withoutRelay bool }{
		"off": {false, true},
		"on":  {true, true},
	} {
		dir := stateDir(t)
		writeConfig(t, dir, "reach: {direct: "+direct+"}\n")
		owner := start(t, dir, "desk").dial()
		hasAddrs := func(p client.InviteParams) bool {
			t.Helper()
			var out client.Invitation
			owner.must("invite", p, &out)
			inv, err := identity.ParseInvitation(out.URI)
			if err != nil {
				t.Fatal(err)
			}
			return len(inv.Addrs) > 0
		}
		if hasAddrs(client.InviteParams{}) != want.withoutRelay {
			t.Errorf("direct: %s, without a relay: it has addresses: %v", direct, !want.withoutRelay)
		}
		owner.must("relay.add", client.RelayAddParams{Name: "hub", URL: tokenServer(t, func(string) {}, "t0ken"), Token: "t0ken", NoCheck: true}, nil)
		if hasAddrs(client.InviteParams{}) != want.withRelay {
			t.Errorf("direct: %s, with a relay: it has addresses: %v", direct, !want.withRelay)
		}
		if hasAddrs(client.InviteParams{NoRelay: true}) != want.withoutRelay {
			t.Errorf("direct: %s, --no-relay: it has addresses: %v", direct, !want.withoutRelay)
		}
	}
}
