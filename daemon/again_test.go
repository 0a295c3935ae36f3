package daemon

import (
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// Who is trusted again by its id alone is called where it last was: nothing has to be
// heard of it first.
func TestTrustedAgainIsConnectedAgain(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	owner := desk.dial()
	owner.must("trust", client.TrustParams{Peer: "laptop", Addrs: []string{}}, nil) // it is known by where it worked
	caller := laptop.dial()
	refuses := func() bool {
		var all client.Peers
		caller.must("peers", nil, &all)
		i := slices.IndexFunc(all.Peers, func(p client.Peer) bool { return p.ID == desk.ID() })
		return i >= 0 && all.Peers[i].Refuses
	}
	for range 2 {
		owner.must("untrust", client.UntrustParams{Peer: "laptop"}, nil)
		await.Until(t, "it is cut off", func() bool { _, up := laptop.node.Peer(desk.ID()); return !up })
		await.Until(t, "it is told of as refusing", refuses)
		owner.must("trust", client.TrustParams{Peer: laptop.ID().String(), Name: "laptop"}, nil)
		await.Until(t, "it is back", func() bool { _, up := laptop.node.Peer(desk.ID()); return up && !refuses() })
	}
	if addr := desk.lastConnections.recall(laptop.ID()); addr != "" {
		t.Errorf("%s is kept as the address of a peer that is trusted no more", addr)
	}
}

// A call that says to nobody is wrong, and is told what is missing.
func TestMissingRecipient(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	if e := desk.dial().refused(kinds.UnknownPeer, "query", client.QueryParams{Payload: query("?")}); !strings.HasPrefix(e.Message, "to: missing: name a trusted peer") {
		t.Error(e)
	}
}
