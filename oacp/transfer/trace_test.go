package transfer

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
)

// TestTrace: what became of a file is known when it is gone, and nothing is said of one
// that went before it was delivered.
func TestTrace(t *testing.T) {
	desk, laptop := bound(t)
	trace := func(file string) *Queued {
		t.Helper()
		q, err := desk.TraceFile(t.Context(), "demo", "reviewer", file)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	delivered := func(when, file, text string) {
		t.Helper()
		if q := trace(file); q == nil || q.State != Delivered || q.Hash != sha256.Sum256([]byte(text)) || q.Peer != laptop.key.ID() || q.Agent != "reviewer" || time.Since(q.Since) > time.Hour {
			t.Errorf("%s: %+v", when, q)
		}
	}
	file, text := desk.question("first")
	desk.becomes(file, Delivered)
	delivered("while it lies here", file, text)
	os.Remove(filepath.Join(laptop.inbox("reviewer"), file))
	await.Until(t, "the copy goes", func() bool { return len(desk.ListQueue("")) == 0 && len(desk.files("reviewer")) == 0 })
	delivered("when its copy is gone", file, text)

	// The same name again is another message, which is sent and traced by itself.
	second := text1("planner", "reviewer", "second")
	laptop.stop()
	desk.send("reviewer", file, second)
	desk.examined(1)
	if q := trace(file); q.State != Waiting || q.Hash != sha256.Sum256([]byte(second)) {
		t.Errorf("while the next waits: %+v", q)
	}
	recalled, _ := desk.question("recalled")
	dropped, _ := desk.question("dropped")
	desk.examined(3)
	os.Remove(filepath.Join(desk.inbox("reviewer"), recalled))
	await.Until(t, "it is dropped, which waits while one more attempt is made", func() bool {
		_, err := desk.DropFile(t.Context(), "demo", "reviewer", dropped)
		if err != nil && kinds.AsError(err).Code != kinds.Overloaded {
			t.Fatal(err)
		}
		return err == nil
	})
	desk.examined(1)
	if a, b := trace(recalled), trace(dropped); a != nil || b != nil {
		t.Errorf("recalled: %+v; dropped: %+v", a, b)
	}
	laptop.start()
	desk.becomes(file, Delivered)
	delivered("the second", file, second)

	// It is kept through restarts, and when the agent lives here again.
	if _, err := desk.Unbind(t.Context(), "demo", "reviewer"); err != nil {
		t.Fatal(err)
	}
	desk.stop()
	desk.start()
	delivered("when it is bound no more", file, second)
	if q := trace("nothing.yaml"); q != nil {
		t.Errorf("a file that never was: %+v", q)
	}
	// Bound again, what lies here is offered again: the ledger speaks of the past alone.
	desk.bind("demo", "reviewer", laptop)
	desk.becomes(file, Delivered)

	err := desk.db.Write(t.Context(), false, func(tx *store.Tx) error {
		if err := sqlMarkFileGone(tx, mailbox{"demo", "reviewer"}, file); err != nil {
			return err
		}
		_, err := sqlPruneDeliveries(tx, time.Now().Add(time.Hour), pruneSlice)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = desk.db.Read(t.Context(), func(tx *store.Tx) error {
		d, err := sqlReadDelivery(tx, mailbox{"demo", "reviewer"}, file)
		if d != nil {
			t.Error("it is kept for ever")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
