package transfer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
)

// fragment is the part of a message that a pausing writer has written so far: it parses,
// and says who it is from.
const fragment = "id: m\nfrom: planner\n"

// TestPausingWriter: what lacks required fields is not taken for a message while its
// writer may be coming back.
func TestPausingWriter(t *testing.T) {
	desk, laptop := bound(t)
	for _, begun := range []string{fragment, "", "id: [", fragment + "to:\n"} {
		name := fileName("planner", "question")
		path := filepath.Join(desk.inbox("reviewer"), name)
		if err := os.WriteFile(path, []byte(begun), 0o644); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "it was looked at", func() bool { return strings.Contains(desk.queued(name).Reason, "rested for 10s") })
		if q := desk.queued(name); q.State != Waiting {
			t.Errorf("%q is %s: %s", begun, q.State, q.Reason)
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		whole := text1("planner", "reviewer", name)
		if _, err := f.WriteString(whole); err != nil {
			t.Fatal(err)
		}
		f.Close()
		laptop.holds("reviewer", name, whole)
		desk.becomes(name, Delivered)
	}
	if parked := desk.logged("mail " + string(Parked)); parked != nil {
		t.Errorf("parked: %q", parked)
	}
}

// TestInvalid: a message that is not valid is carried all the same: at once if its
// writer is done with it, else when it has rested.
func TestInvalid(t *testing.T) {
	desk, laptop := bound(t)
	first, _ := desk.question("the folder is watched")
	desk.becomes(first, Delivered)
	begun := time.Now()
	desk.send("reviewer", "renamed.yaml", fragment)
	laptop.holds("reviewer", "renamed.yaml", fragment)
	if took := time.Since(begun); took >= invalidRestTime {
		t.Errorf("it took %s", took)
	}
	path := filepath.Join(desk.inbox("reviewer"), "written.yaml")
	if err := os.WriteFile(path, []byte(fragment+"to: rx\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it was looked at", func() bool {
		return strings.Contains(desk.queued("written.yaml").Reason, "field 'type' is empty")
	})
	longAgo := time.Now().Add(-invalidRestTime)
	if err := os.Chtimes(path, longAgo, longAgo); err != nil {
		t.Fatal(err)
	}
	laptop.holds("reviewer", "written.yaml", fragment+"to: rx\n")
}

// TestHint: that a file is whole is not forgotten before it is looked at.
func TestHint(t *testing.T) {
	desk, _ := desks(t)
	desk.start()
	p := mailbox{"demo", "planner"}
	desk.stop() // so that nothing looks
	desk.ledger.mu.Lock()
	desk.ledger.whole[p] = names{"a.yaml": {}}
	desk.ledger.markFilesDirtyLocked(p, names{"a.yaml": {}})
	desk.ledger.mu.Unlock()
	for _, want := range []int{1, 0} {
		desk.ledger.markAllDirty()
		if got := len(desk.ledger.whole[p]); got != want {
			t.Errorf("%d hints, want %d", got, want)
		}
		clear(desk.ledger.dirty) // it is looked at, and not there
	}
}
