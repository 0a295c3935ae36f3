package daemon

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

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
			out := get[client.Invitation](owner, "invite", p)
			inv, err := identity.ParseInvitation(out.URI)
			if err != nil {
				t.Fatal(err)
			}
			return len(inv.Addrs) > 0
		}
		if hasAddrs(client.InviteParams{}) != want.withoutRelay {
			t.Errorf("direct: %s, without a relay: it has addresses: %v", direct, !want.withoutRelay)
		}
		owner.must("relay.add", client.RelayAddParams{Name: "hub", URL: deadRelay, NoCheck: true}, nil)
		if hasAddrs(client.InviteParams{}) != want.withRelay {
			t.Errorf("direct: %s, with a relay: it has addresses: %v", direct, !want.withRelay)
		}
		if hasAddrs(client.InviteParams{NoRelay: true}) != want.withoutRelay {
			t.Errorf("direct: %s, --no-relay: it has addresses: %v", direct, !want.withoutRelay)
		}
	}
}

// TestJoinStaysOnTheRelay has a daemon that is told to stay on relays join: where it uses a relay of the
// invitation it dials no address, and keeps none.
// holds: security.md#exposure-on-the-network
func TestJoinStaysOnTheRelay(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	invite := func() string {
		t.Helper()
		out := get[client.Invitation](desk.dial(), "invite", nil)
		inv, err := identity.ParseInvitation(out.URI)
		if err != nil {
			t.Fatal(err)
		}
		inv.Relays = []identity.InvitedRelay{{URL: deadRelay}}
		return inv.String()
	}
	for direct, refused := range map[string]bool{"off": true, "on": false} {
		dir := stateDir(t)
		writeConfig(t, dir, "reach: {direct: "+direct+"}\n")
		laptop := start(t, dir, "laptop-"+direct)
		owner := laptop.dial()
		owner.must("relay.add", client.RelayAddParams{Name: "hub", URL: deadRelay, NoCheck: true}, nil)
		uri := invite()
		if !refused {
			owner.must("join", client.JoinParams{URI: uri}, nil)
			continue
		}
		e := owner.refused(kinds.Unreachable, "join", client.JoinParams{URI: uri})
		if !strings.HasSuffix(e.Message, "; its addresses are not dialled, since reach.direct is off: acpctl join --no-relay dials them") {
			t.Errorf("%v", e)
		}
		owner.must("join", client.JoinParams{URI: uri, Relay: client.JoinSkipsRelay}, nil)
		laptop.becomes(client.PeerConnected, desk)
	}
}

// TestDirectOffWithoutAUsableRelay has a daemon that is told to stay on relays start with one that cannot be used: it
// dials no peer where it was before, and names no address of this machine unless told to.
func TestDirectOffWithoutAUsableRelay(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"config.yaml": {"config.yaml": "reach: {direct: off, relays: [{name: hub, url: \"" + deadRelay + "\", credentials: missing.creds}]}\n"},
		"relays.yaml": {"config.yaml": "reach: {direct: off}\n", "relays.yaml": "rubbish\n"},
	} {
		dir, id := stateDir(t), identity.ID{0xaa, 31: 4}
		for file, text := range files {
			writeFile(t, filepath.Join(dir, file), text)
		}
		desk := start(t, dir, "desk")
		owner := desk.dial()
		owner.must("trust", client.TrustParams{Peer: id.String()}, nil)
		desk.addresses.RecordConnection(id, "192.0.2.2:7117", time.Now())
		var me client.Whoami
		if owner.must("whoami", nil, &me); !me.HidesAddrs || len(desk.addresses.TakeDialAddrs(id)) > 0 {
			t.Errorf("%s: it hides addresses: %t; it dials %q", name, me.HidesAddrs, desk.addresses.TakeDialAddrs(id))
		}
		if e := owner.refused(kinds.Invalid, "invite", nil); !strings.Contains(e.Message, "direct is off") {
			t.Errorf("%s: %v", name, e)
		}
		var out client.Invitation
		if owner.must("invite", client.InviteParams{NoRelay: true}, &out); !strings.Contains(out.URI, "addr=") {
			t.Errorf("%s: %s", name, out.URI)
		}
	}
}

// TestDirectOffForgetsWherePeersWere has a daemon that is told to stay on relays: while it has one, it dials a peer
// at addresses that somebody gave, and not where the peer was connected before.
// holds: security.md#exposure-on-the-network
func TestDirectOffForgetsWherePeersWere(t *testing.T) {
	t.Parallel()
	dir, id := stateDir(t), identity.ID{0xaa, 31: 4}
	writeConfig(t, dir, "reach: {direct: off}\n")
	desk := start(t, dir, "desk")
	owner := desk.dial()
	owner.must("trust", client.TrustParams{Peer: id.String(), Addrs: []string{"192.0.2.1:7117"}}, nil)
	desk.addresses.RecordConnection(id, "192.0.2.2:7117", time.Now())
	for relay, want := range map[bool][]string{false: {"192.0.2.2:7117", "192.0.2.1:7117"}, true: {"192.0.2.1:7117"}} {
		if relay {
			owner.must("relay.add", client.RelayAddParams{Name: "hub", URL: deadRelay, NoCheck: true}, nil)
		} else if desk.node.StaysOnRelays() {
			owner.must("relay.remove", client.RelayRemoveParams{Name: "hub"}, nil)
		}
		me := get[client.Whoami](owner, "whoami", nil)
		if got := desk.addresses.TakeDialAddrs(id); !slices.Equal(got, want) || me.HidesAddrs != relay {
			t.Errorf("with a relay %t: %q; it hides addresses: %t", relay, got, me.HidesAddrs)
		}
	}
}
