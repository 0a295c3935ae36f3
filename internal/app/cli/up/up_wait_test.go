package up

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/kinds"
)

// While up waits to be trusted too, it asks its own daemon whether the other machine has come. It seldom calls that one,
// whose log has each call of a stranger.
func TestUpSeldomCallsWhoDoesNotTrustItYet(t *testing.T) {
	d := newUpDaemon(t)
	half := desk
	half.Refuses = true
	var asked, calls int
	d.handle(client.MethodPeers, func(*jsonrpc.Request) (any, error) {
		if asked++; asked == 6 {
			d.peers[0].Refuses = false
		}
		return &client.Peers{Peers: slices.Clone(d.peers)}, nil
	})
	d.handle(client.MethodTrust, func(*jsonrpc.Request) (any, error) {
		asked, d.peers = 0, []client.Peer{half}
		return &client.NamedPeer{ID: clitest.DeskID, Name: "desk"}, nil
	})
	var atEnd int
	d.handle(client.MethodPing, func(*jsonrpc.Request) (any, error) {
		calls++
		if asked >= 6 {
			return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: kinds.KindPong, RTTUS: 400, Payload: kinds.EncodePayload(&kinds.Pong{})}, nil
		}
		atEnd = calls
		return nil, kinds.Errorf(kinds.NotTrusted, "no")
	})
	d.setState([]client.Peer{{ID: clitest.DeskID, Claim: "desk", State: client.PeerDiscovered, Addrs: []string{"192.0.2.1:7117"}}})
	s := d.startUp(t)
	s.types("To trust it, type 1:", "1\n")
	s.types("Trust it? Type yes or no: ", "yes\n")
	if code := await.Receive(t, "exit code", s.code); code != 0 || atEnd != 1 {
		t.Errorf("exit code %d, %d calls before it was trusted, want 1:\n%s", code, atEnd, s.shown.String())
	}
}

// Who trusts this machine without its line calls it. Also while up waits with the line, that is said, and the caller
// and each machine that was shown before can be trusted by its number.
func TestUpTakesANumberWhileItWaits(t *testing.T) {
	stranger := client.Peer{ID: clitest.DeskID, Claim: "desk", State: client.PeerDiscovered, Addrs: []string{"192.0.2.1:7117"}}
	caller := stranger
	caller.State = client.PeerPending
	for _, shown := range [][]client.Peer{nil, {stranger}} {
		for _, calls := range []bool{true, false} {
			if shown == nil && !calls {
				continue
			}
			d := newUpDaemon(t)
			d.setOpen(client.OpenInvitation{ID: "1"})
			d.setState(shown)
			d.SetAnswer(client.MethodInvite, &client.Invitation{URI: "acp://first", ID: "1", Expires: time.Now().Add(time.Hour)})
			d.handle(client.MethodRevoke, func(r *jsonrpc.Request) (any, error) {
				var p client.RevokeParams
				err := r.ReadParams(&p)
				d.did = append(d.did, "revoke "+p.ID)
				return &client.Revoked{Revoked: 1}, err
			})
			s := d.startUp(t)
			if shown != nil {
				s.types("is on this network, at 192.0.2.1:7117. To trust it, type 1:", "")
			}
			s.types("press Enter to make one: ", "\n")
			if s.types("q leaves it", ""); strings.Contains(s.shown.String(), "you can type the number") != (shown != nil) {
				t.Errorf("%v: %s", shown, s.shown.String())
			}
			if calls {
				d.setState([]client.Peer{caller})
				s.types("\a\n\"desk\" wants to be your peer, at 192.0.2.1:7117. To trust it, type 1:", "")
			}
			s.types("q leaves it", "2\n")
			s.types("does not begin with acp://", "1\n")
			s.types("Trust it? Type yes or no: ", "n\n")
			s.types("Type yes or no: ", "1\n")
			await.Until(t, "the question again", func() bool { return strings.Count(s.shown.String(), "Compare the fingerprint") == 2 })
			s.types("Compare the fingerprint", "y\n")
			if code := await.Receive(t, "exit code", s.code); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if did := d.takeDone(); did != "trust de5c; revoke 1" || strings.Count(s.shown.String(), "wants to be your peer") > 1 {
				t.Errorf("%q:\n%s", did, s.shown.String())
			}
			wantAll(t, clitest.Result{Out: s.shown.String()}, "fingerprint  de5c 0000", "desk answers in")
		}
	}
}
