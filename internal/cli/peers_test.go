package cli

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
)

// TestPeersThatRefuse: who does not trust this daemon is not shown as one that is away.
func TestPeersThatRefuse(t *testing.T) {
	f := newFake(t)
	f.on(client.MethodPeers, &client.Peers{Peers: []client.Peer{
		{ID: deskID, Name: "desk", State: client.PeerTrusted, Refuses: true},
		{ID: me, Name: "office", State: client.PeerTrusted},
	}})
	if r := f.run("peers"); !strings.Contains(r.out, "\ttrusted, refuses us\t") || !strings.Contains(r.out, "\ttrusted\t") || r.err != "" {
		t.Errorf("%+v", r)
	}
	if r := f.typed("", "peers"); r.err != "desk does not trust this daemon: acpctl trust there\n" || !strings.Contains(r.out, "trusted, refuses us") {
		t.Errorf("%+v", r)
	}
}
