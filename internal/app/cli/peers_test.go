package cli

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
)

// TestPeersThatRefuse: who does not trust this daemon is not shown as one that is away.
func TestPeersThatRefuse(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{
		{ID: clitest.DeskID, Name: "desk", State: client.PeerTrusted, Refuses: true},
		{ID: clitest.MyID, Name: "office", State: client.PeerTrusted},
	}})
	if r := f.Run("peers"); !strings.Contains(r.Out, "\ttrusted, refuses us\t") || !strings.Contains(r.Out, "\ttrusted\t") || r.Err != "" {
		t.Errorf("%+v", r)
	}
	if r := f.RunInteractive("", "peers"); r.Err != "desk does not trust this daemon: acpctl trust there\n" || !strings.Contains(r.Out, "trusted, refuses us") {
		t.Errorf("%+v", r)
	}
}

// A path that is not the direct one is named; the id in an address on a relay is not repeated.
func TestPeersByOtherPaths(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{
		{ID: clitest.DeskID, Name: "desk", State: client.PeerConnected, Path: client.PathRelay, Addrs: []string{"relay:corp/" + clitest.DeskID.String(), "192.0.2.1:7117"}},
		{ID: clitest.MyID, Name: "office", State: client.PeerConnected, Path: client.PathDirect, Addrs: []string{"[2001:db8::1]:7117"}},
	}})
	got := f.Run("peers")
	for i, want := range []string{"\tconnected by relay\t.*\trelay:corp 192.0.2.1:7117$", "\tconnected\t.*\t\\[2001:db8::1\\]:7117$"} {
		if line := strings.Split(got.Out, "\n")[i]; !regexp.MustCompile(want).MatchString(line) {
			t.Errorf("%q: want %s", line, want)
		}
	}
}

// peers says what to do next, to a person alone.
func TestPeersSaysWhatIsNext(t *testing.T) {
	f := newDaemon(t)
	stranger := client.Peer{ID: clitest.MyID, State: client.PeerDiscovered, Claim: "desk", Source: client.SourceMDNS, LastSeen: client.Time{Time: time.Now().Add(-90 * time.Second)}}
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{stranger}})
	if got := f.RunInteractive("", "peers"); !strings.Contains(got.Err, "acpctl trust NAME") || !strings.Contains(got.Out, "1m ago") {
		t.Errorf("%+v", got)
	}
	if got := f.Run("peers"); got.Err != "" || strings.Contains(got.Out, "ago") {
		t.Errorf("%+v", got)
	}
	f.SetAnswer(client.MethodPeers, &client.Peers{})
	f.WantResult(f.RunInteractive("", "peers"), 0, "", "none\nto connect another machine: acpctl up, here and there\n")
}
