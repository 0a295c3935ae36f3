package transfer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
)

// TestPresence: the status of a bound agent follows its peer, in a file of ours alone.
func TestPresence(t *testing.T) {
	desk, laptop := desks(t)
	status := filepath.Join(desk.folder("demo", "reviewer"), "status.yaml")
	says := func(what string) {
		t.Helper()
		await.Until(t, "the reviewer is "+what, func() bool {
			text, _ := os.ReadFile(status)
			return strings.Contains(string(text), "\nstatus: "+what+"\n")
		})
	}
	if err := os.WriteFile(filepath.Join(laptop.folder("demo", "reviewer"), "status.yaml"), []byte("runtime: codex\nstatus: \"busy\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	desk.start()
	desk.bind("demo", "reviewer", laptop)
	says("offline")
	laptop.start()
	laptop.bind("demo", "planner", desk)
	desk.node.Connect(laptop.key.ID())
	says("busy")
	laptop.stop()
	says("offline")

	desk.stop()
	mine := "runtime: claude\nstatus: available\n"
	if err := os.WriteFile(status, []byte(mine), 0o644); err != nil {
		t.Fatal(err)
	}
	desk.start()
	await.Until(t, "the first look is over", func() bool {
		desk.ledger.mu.Lock()
		defer desk.ledger.mu.Unlock()
		return desk.ledger.bound[mailbox{"demo", "reviewer"}].fileStatus != ""
	})
	desk.stop()
	if text, _ := os.ReadFile(status); string(text) != mine {
		t.Errorf("somebody's own status became %q", text)
	}
}

// TestStatusEndsWithTheBinding: what was kept of an agent elsewhere says nothing of the
// one that lives here from then on. Its own file stays.
func TestStatusEndsWithTheBinding(t *testing.T) {
	desk, _ := bound(t)
	status := filepath.Join(desk.folder("demo", "reviewer"), statusFile)
	await.Until(t, "a status is kept", func() bool {
		_, err := os.Stat(status)
		return err == nil
	})
	unbind := func() {
		t.Helper()
		if _, err := desk.Unbind(t.Context(), "demo", "reviewer"); err != nil {
			t.Fatal(err)
		}
	}
	unbind()
	if text, err := os.ReadFile(status); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it says %q (%v)", text, err)
	}
	mine := "runtime: claude\nstatus: available\n"
	if err := os.WriteFile(status, []byte(mine), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := desk.Bind(t.Context(), Binding{Project: "demo", Agent: "reviewer", Peer: identity.ID{1}}, true); err != nil {
		t.Fatal(err)
	}
	unbind()
	if text, err := os.ReadFile(status); string(text) != mine {
		t.Errorf("somebody's own status became %q (%v)", text, err)
	}
}
