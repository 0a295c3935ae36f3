package meet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

// A person's yes is for the key that was shown.
func TestTrustTakesTheKeyThatWasShown(t *testing.T) {
	f := newDaemon(t)
	first := client.Peer{ID: clitest.DeskID, State: client.PeerPending, Claim: "desk", Addrs: []string{"192.0.2.1:7117"}}
	second := client.Peer{ID: clitest.MyID, State: client.PeerPending, Claim: "desk"}
	var got client.TrustParams
	f.SetHandler(client.MethodTrust, func(r *jsonrpc.Request) (any, error) {
		got = client.TrustParams{}
		err := r.ReadParams(&got)
		return &client.NamedPeer{ID: clitest.DeskID, Name: "desk"}, err
	})
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{first}})
	if r := f.RunInteractive("yes\n", "trust", "desk"); r.Code != 0 || got.Peer != clitest.DeskID.String() || !strings.Contains(r.Err, clitest.DeskID.Fingerprint()) || r.Out != "trusted desk ("+clitest.DeskID.Fingerprint()+")\n" {
		t.Errorf("%+v: trusted %+v", r, got)
	}
	for _, answer := range []string{"", "\n", "n\n", "no\n", "yes please\n", "perhaps\nsure\nyes\n"} {
		got = client.TrustParams{}
		if r := f.RunInteractive(answer, "trust", clitest.DeskID.String()[:6]); r.Code != frame.ExitLocal || got.Peer != "" {
			t.Errorf("%q: %+v: trusted %+v", answer, r, got)
		}
	}
	if r := f.RunInteractive("yes\n", "trust", clitest.DeskID.String()[:5]); r.Code != kinds.UnknownPeer.Info().Exit {
		t.Errorf("five digits name somebody: %+v", r)
	}
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{first, second}})
	if r := f.RunInteractive("yes\n", "trust", "desk"); r.Code != kinds.UnknownPeer.Info().Exit || !strings.Contains(r.Err, clitest.DeskID.String()) || !strings.Contains(r.Err, clitest.MyID.String()) {
		t.Errorf("two of a name: %+v", r)
	}
	// Who is trusted under that name is meant, whatever a stranger calls itself.
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{second, {ID: clitest.DeskID, Name: "desk", State: client.PeerTrusted}}})
	if r := f.Run("trust", "desk", "--addr", "desk.example:7117", "--addr", "192.0.2.1:7117"); r.Code != 0 || got.Peer != clitest.DeskID.String() || len(got.Addrs) != 2 {
		t.Errorf("%+v: trusted %+v", r, got)
	}
}

// A name may be a blocked key's and a stranger's: then the stranger is meant, and
// nobody is led to take the block back. Several who claim a name are listed, not all.
func TestTrustOfANameThatOthersHave(t *testing.T) {
	f := newDaemon(t)
	blocked := client.Peer{ID: clitest.DeskID, State: client.PeerBlocked, Name: "desk"}
	stranger := client.Peer{ID: clitest.MyID, State: client.PeerDiscovered, Claim: "desk", Addrs: []string{"192.0.2.2:7117"}, Source: client.SourceMDNS}
	var trusted string
	f.SetHandler(client.MethodTrust, func(r *jsonrpc.Request) (any, error) {
		var p client.TrustParams
		err := r.ReadParams(&p)
		trusted = p.Peer
		return &client.NamedPeer{ID: clitest.MyID, Name: "desk"}, err
	})
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{stranger, blocked}})
	if got := f.RunAtTerminal(ui.Terminal{}, "yes\n", "trust", "desk"); got.Code != 0 || trusted != clitest.MyID.String() || !strings.Contains(got.Err, clitest.MyID.Fingerprint()) {
		t.Errorf("%+v, trusted %s", got, trusted)
	}
	decoy := stranger // which calls itself like a machine of a fleet
	decoy.Claim, trusted = "build-7.corp", ""
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{decoy}})
	if got := f.RunAtTerminal(ui.Terminal{}, "yes\n", "trust", "build-7.corp"); got.Code != kinds.UnknownPeer.Info().Exit || trusted != "" {
		t.Errorf("%+v, trusted %s", got, trusted)
	}
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{blocked}})
	if got := f.Run("trust", "desk"); got.Code != kinds.UnknownPeer.Info().Exit || !strings.Contains(got.Err, "blocked") {
		t.Errorf("%+v", got)
	}
	var crowd []client.Peer
	for i := range 100 {
		stranger.ID[1] = byte(i)
		crowd = append(crowd, stranger)
	}
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: crowd})
	if got := f.Run("trust", "desk"); got.Code != kinds.UnknownPeer.Info().Exit || strings.Count(got.Err, "discovered 192.0.2.2:7117") != maxListed || !strings.Contains(got.Err, "92 more") {
		t.Errorf("%+v", got)
	}
}

// A person reads what is to be done on the other side, and a script reads only the name. An id may be typed in upper case.
func TestTrustSaysWhatIsNext(t *testing.T) {
	f := newDaemon(t)
	f.SetHandler(client.MethodTrust, func(r *jsonrpc.Request) (any, error) {
		var p client.TrustParams
		if err := r.ReadParams(&p); err != nil || p.Peer != clitest.DeskID.String() {
			return nil, fmt.Errorf("%+v: %v", p, err)
		}
		return &client.NamedPeer{ID: clitest.DeskID, Name: "desk"}, nil
	})
	id := strings.ToUpper(clitest.DeskID.String())
	f.WantResult(f.RunAtTerminal(ui.Terminal{ErrTTY: true}, "", "trust", id), 0, "desk\n", "messages pass once the other side trusts this daemon too: acpctl ping desk\n")
	f.WantResult(f.Run("trust", "--yes", id), 0, "desk\n", "")
}

// Who cuts a peer off at a terminal reads that it stays blocked, and what lifts that.
func TestWhatLiftsABlockIsTold(t *testing.T) {
	f := newDaemon(t)
	lifts := "acpctl trust " + clitest.DeskID.String()
	f.SetAnswer(client.MethodUntrust, &client.Untrusted{ID: clitest.DeskID, Name: "laptop"})
	f.WantResult(f.Run("untrust", "laptop"), 0, clitest.DeskID.String()+"\n", "")
	f.WantResult(f.RunAtTerminal(ui.Terminal{OutTTY: true}, "", "untrust", "laptop"), 0, "laptop is cut off and stays blocked, and what it has sent is gone: "+lifts+" lifts that\n", "")
}
