//go:build faults

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// TestTwoDaemonsOnOneDirectory: whoever comes second is refused and says by whom; the
// first is not disturbed, whatever it is doing.
func TestTwoDaemonsOnOneDirectory(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	c.talk()
	c.held20()
	want := fmt.Sprintf("the daemon with pid %d runs on %s", c.desk.Acpd.Cmd.Process.Pid, c.desk.Home)
	for range 5 {
		second := c.desk.Begin(c.desk.Command()...)
		if said := second.Fails(1); !strings.Contains(said, want) || !strings.Contains(said, "stop it, or start this one with another --home") {
			t.Errorf("the second says %q", said)
		}
	}
	for kind, ended := range c.quiet() {
		for end, n := range ended {
			if end == "internal" || end == "unreachable" || end == "nothing said" {
				t.Errorf("%d calls of kind %s ended as %s", n, kind, end)
			}
		}
	}
	c.settle()
}

// TestOneIdentityTwice: of two daemons with one state directory's copies the later one
// is served, the earlier one is told, and the peer tells of both. Where the later one is
// gone the other one's next start is served.
func TestOneIdentityTwice(t *testing.T) {
	t.Parallel()
	desk, laptop := live.New(t, "desk"), live.New(t, "laptop")
	desk.Start()
	laptop.Start()
	desk.Trust(laptop, laptop.Addr)
	laptop.Trust(desk, desk.Addr)
	reaches := func(m *live.Machine) bool { return m.Peer(laptop.ID).State == client.PeerConnected }
	await.Until(t, "desk is connected", func() bool { return reaches(desk) })
	desk.Stop()

	copied := live.New(t, "desk")
	if err := os.RemoveAll(copied.Home); err != nil {
		t.Fatal(err)
	}
	copied.Home = folder(t, desk.Home)
	copied.Client = &client.Client{Socket: copied.Socket()}
	t.Cleanup(func() { copied.Client.Close() })
	port := filepath.Join(copied.Home, "config.yaml")
	if err := os.WriteFile(port, []byte("listen: 127.0.0.2:0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	copied.Flags = []string{"--no-mdns"}
	desk.Start()
	await.Until(t, "desk is connected", func() bool { return reaches(desk) })
	copied.Start()
	if copied.ID != desk.ID {
		t.Fatal("the copy is another")
	}
	served := func(m *live.Machine) bool {
		p := m.Acpctl("notify", "laptop", "build", "1", "--json")
		p.Await()
		return p.Cmd.ProcessState.ExitCode() == 0
	}
	await.Until(t, "the later one is served", func() bool { return served(copied) })
	await.Until(t, "the earlier one is told", func() bool {
		p := desk.Acpctl("notify", "laptop", "build", "1", "--json")
		p.Await()
		return strings.Contains(p.Stdout.String(), "identity_conflict")
	})
	if !served(copied) {
		t.Error("the later one is served no more")
	}
	await.Until(t, "the peer's log tells of both", func() bool { return strings.Contains(laptop.Acpd.Stderr.String(), "identity conflict") })
	held := len(strings.Split(strings.TrimSpace(laptop.Must("inbox")), "\n"))
	copied.Stop()
	desk.Stop()
	desk.Start() // an earlier process stays refused; a new one is served at once
	await.Until(t, "desk is served again", func() bool { return served(desk) })
	if now := len(strings.Split(strings.TrimSpace(laptop.Must("inbox")), "\n")); now != held+1 {
		t.Errorf("the inbox has %d messages, want %d", now, held+1)
	}
}
