package cli

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/clitest"
)

// TestPeersThatRefuse: who does not trust this daemon is not shown as one that is away.
func TestPeersThatRefuse(t *testing.T) {
	f := newDaemon(t)
	f.Answer(client.MethodPeers, &client.Peers{Peers: []client.Peer{
		{ID: clitest.DeskID, Name: "desk", State: client.PeerTrusted, Refuses: true},
		{ID: clitest.MyID, Name: "office", State: client.PeerTrusted},
	}})
	if r := f.Run("peers"); !strings.Contains(r.Out, "\ttrusted, refuses us\t") || !strings.Contains(r.Out, "\ttrusted\t") || r.Err != "" {
		t.Errorf("%+v", r)
	}
	if r := f.RunTyped("", "peers"); r.Err != "desk does not trust this daemon: acpctl trust there\n" || !strings.Contains(r.Out, "trusted, refuses us") {
		t.Errorf("%+v", r)
	}
}
