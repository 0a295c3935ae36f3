package processes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// TestWebSocketOfTheDocs runs the server that docs/reach.md configures for machines that reach port 443
// alone: a daemon at its WebSocket reaches one at its other port, and invites one to the WebSocket.
func TestWebSocketOfTheDocs(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-48-hex-digits"
	s := newServer(t, []string{"of a person", "behind HTTPS"}, "TOKEN", token)
	s.start()
	desk, laptop, build := newMachine(t, "desk", s), newMachine(t, "laptop", s), newMachine(t, "build", s)
	for _, m := range []*live.Machine{desk, laptop, build} {
		m.StartDaemon()
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wss := "wss://" + s.wss
	desk.MustOutput("relay", "add", wss, "--name", "hub", "--token-file", file, "--share")
	laptop.MustOutput("relay", "add", s.url(), "--name", "hub", "--token-file", file)
	if r := relayOf(t, desk); r.URL != wss || r.State != client.RelayUp {
		t.Errorf("%+v", r)
	}
	desk.Trust(laptop)
	laptop.Trust(desk)
	awaitConnected(t, desk, laptop)
	laptop.MustOutput("ping", "desk", "-c", "1")

	invitation := hideAddrs(desk.MustOutput("invite", "--with-credential"))
	if !strings.Contains(invitation, "relay=wss://"+token+"@"+s.wss+"&") {
		t.Errorf("the invitation is %s", invitation)
	}
	build.MustOutput("join", invitation, "--keep-relay")
	awaitConnected(t, desk, build)
	build.MustOutput("ping", "desk", "-c", "1")
	if r := relayOf(t, build); r.URL != wss {
		t.Errorf("%+v", r)
	}
}

// awaitConnected waits until both of two machines are connected over a relay.
func awaitConnected(t *testing.T, a, b *live.Machine) {
	t.Helper()
	await.Until(t, a.Name+" and "+b.Name+" are connected", func() bool {
		return a.FindPeer(b.ID).Path == client.PathRelay && b.FindPeer(a.ID).Path == client.PathRelay
	})
}
