package transfer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/store"
)

// full says whether the ledger is to find no space for what arrives.
func (s *side) full(is bool) {
	s.t.Helper()
	script := []string{"DROP TRIGGER heavy", "PRAGMA max_page_count = 1000000"}
	if is {
		script = []string{
			"CREATE TABLE IF NOT EXISTS ballast (b)",
			"CREATE TRIGGER heavy BEFORE INSERT ON oacp_arrival BEGIN INSERT INTO ballast (b) VALUES (zeroblob(1000000)); END",
			"PRAGMA max_page_count = 1", // as many as there are
		}
	}
	err := s.db.Write(s.t.Context(), false, func(tx *store.Tx) error {
		for _, line := range script {
			if _, err := tx.Exec(line); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestFullLedger: who sends to a machine of which the disk is full hears that, and the
// log there has it once.
func TestFullLedger(t *testing.T) {
	desk, laptop := bound(t)
	const letters = 12
	for round := range 2 {
		laptop.full(true)
		for i := range letters {
			desk.question(fmt.Sprint(i))
		}
		await.Until(t, "the sender knows why, and tries again", func() bool {
			told := 0
			for _, q := range desk.ListQueue("demo") {
				if q.State == Waiting && q.Reason == "laptop says: it could not be stored there: no space left on device (internal)" {
					told++
				}
			}
			desk.ledger.mu.Lock()
			defer desk.ledger.mu.Unlock()
			for _, e := range desk.ledger.bound[mailbox{"demo", "reviewer"}].entries {
				if e.state != Delivered && e.tries < 3 {
					return false
				}
			}
			return told == letters
		})
		refused := laptop.logged("mail refused")
		if len(refused) != round+1 {
			t.Fatalf("round %d: %d lines: %q", round, len(refused), refused)
		}
		for _, what := range []string{"level=WARN", "op=deliver", "project=demo", "agent=reviewer", "file=", "no space left on device", "free some space"} {
			if !strings.Contains(refused[round], what) {
				t.Errorf("no %q in %q", what, refused[round])
			}
		}
		laptop.full(false)
		await.Until(t, "all arrive", func() bool { return len(laptop.arrivedFiles()) == (round+1)*letters })
	}
}

// TestFilesOfNoReason: that the failing files have different names is no news.
func TestFilesOfNoReason(t *testing.T) {
	dir, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	_, first := dir.Open("a")
	_, second := dir.Open("b")
	if why := errorTextWithoutPath(fmt.Errorf("store mail: %w", first)); first.Error() == second.Error() || why != errorTextWithoutPath(second) || !strings.Contains(why, syscall.ENOENT.Error()) {
		t.Errorf("%q, %q", why, errorTextWithoutPath(second))
	}
	if why, also := errorTextWithoutPath(dir.Link("a", "c")), errorTextWithoutPath(dir.Link("b", "d")); why != also || !strings.Contains(why, syscall.ENOENT.Error()) {
		t.Errorf("%q, %q", why, also)
	}
}

// TestFailures: reasons that a peer makes up are not kept for ever.
func TestFailures(t *testing.T) {
	log := failureLog{seen: make(map[failure]struct{})}
	for i := range 2 * maxFailures {
		if !log.addIfNew("mail", fmt.Sprint(i)) {
			t.Fatal("not new")
		}
	}
	if n := len(log.seen); n > maxFailures || log.addIfNew("mail", fmt.Sprint(2*maxFailures-1)) {
		t.Errorf("%d are kept, or the last is news again", n)
	}
	if log.clearFailure("mail"); len(log.seen) != 0 {
		t.Errorf("%d are left", len(log.seen))
	}
}

// TestCopyCannotGo: a copy that cannot be removed stays in the queue, which says why,
// until it is gone; the peer has nothing to do with it.
func TestCopyCannotGo(t *testing.T) {
	desk, laptop := bound(t)
	file, _ := desk.question("stays")
	desk.becomes(file, Delivered)
	p := mailbox{"demo", "reviewer"}
	inbox, err := desk.openInbox(p)
	if err != nil {
		t.Fatal(err)
	}
	inbox.Close() // so that nothing can be removed
	desk.ledger.mu.Lock()
	e := desk.ledger.bound[p].entries[file]
	desk.ledger.mu.Unlock()
	for range 3 {
		desk.removeDeliveredCopy(t.Context(), inbox, e)
	}
	if q := desk.queued(file); q.State != Delivered || !strings.HasPrefix(q.Reason, "the copy here cannot be removed: ") {
		t.Errorf("the queue has %+v", q)
	}
	said := desk.logged("cannot be removed")
	if len(said) != 1 || !strings.Contains(said[0], "project=demo agent=reviewer file="+file) {
		t.Errorf("the log has %q", said)
	}
	os.Remove(filepath.Join(laptop.inbox("reviewer"), file))
	await.Until(t, "it goes", func() bool { return len(desk.files("reviewer")) == 0 && len(desk.ListQueue("")) == 0 })
	if refused := desk.logged("mail refused"); refused != nil {
		t.Errorf("the log has %q", refused)
	}
}
