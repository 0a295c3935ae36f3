package transfer

import (
	"crypto/sha256"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/store"
)

// TestMend: what a crash left half stored is settled at the start: it is there, or in
// the archive, or it comes again; and temporary files go.
func TestMend(t *testing.T) {
	desk, laptop := bound(t)
	inbox := laptop.inbox("reviewer")
	laptop.stop()
	desk.stop()
	db := statedb.Open(t, filepath.Join(laptop.dir, "state.db"))
	arrive := func(file, text string) {
		t.Helper()
		a := &arrival{key: arrivalKey{desk.key.ID(), mailbox{"demo", "reviewer"}, file, sha256.Sum256([]byte(text))}, state: writing}
		if err := db.Write(t.Context(), true, func(tx *store.Tx) error { return sqlAddArrival(tx, a) }); err != nil {
			t.Fatal(err)
		}
	}
	want := make(map[string]string)
	for _, name := range []string{"linked.yaml", "clash.yaml", "archived.yaml", "lost.yaml"} {
		text := text1("planner", "reviewer", name)
		desk.send("reviewer", name, text)
		want[name] = text
		arrive(name, text)
	}
	deposit(t, inbox, "linked.yaml", want["linked.yaml"])
	deposit(t, inbox, "clash.yaml", "mine")
	deposit(t, inbox, "clash_2.yaml", want["clash.yaml"])
	if err := os.Mkdir(filepath.Join(inbox, "archive"), 0o777); err != nil {
		t.Fatal(err)
	}
	deposit(t, filepath.Join(inbox, "archive"), "archived.yaml", want["archived.yaml"])
	for _, name := range []string{"lost.yaml", "linked.yaml"} {
		key := arrivalKey{desk.key.ID(), mailbox{"demo", "reviewer"}, name, sha256.Sum256([]byte(want[name]))}
		if err := os.WriteFile(filepath.Join(inbox, key.tempFileName()), []byte("id: "), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	laptop.start()
	laptop.noDebris("reviewer")
	desk.start()
	await.Until(t, "the archived one is over", func() bool { _, there := desk.files("reviewer")["archived.yaml"]; return !there })
	for _, name := range []string{"linked.yaml", "clash.yaml", "lost.yaml"} {
		desk.becomes(name, Delivered)
	}
	delete(want, "archived.yaml")
	want["clash_2.yaml"], want["clash.yaml"] = want["clash.yaml"], "mine"
	if got := laptop.files("reviewer"); !maps.Equal(got, want) {
		t.Errorf("the laptop holds %v", got)
	}
	if got := laptop.arrivedFiles(); len(got) != 1 || got[0] != "lost.yaml" {
		t.Errorf("arrived: %v", got)
	}
	laptop.noDebris("reviewer")
}

// TestFolderReplaced: nobody tells of what happens in a folder that has taken the
// place of another; looking finds it. The whole home may be gone for a while.
func TestFolderReplaced(t *testing.T) {
	desk, laptop := bound(t)
	first, text := desk.question("before")
	laptop.holds("reviewer", first, text)
	desk.becomes(first, Delivered)
	away := desk.home + ".away"
	if err := os.Rename(desk.home, away); err != nil {
		t.Fatal(err)
	}
	desk.makeAgent("demo", "reviewer")
	second, text := desk.question("after")
	laptop.holds("reviewer", second, text)
	await.Until(t, "what is gone is out of the queue", func() bool { return desk.queued(first).State == "" })
	if err := os.RemoveAll(desk.home); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, desk.home); err != nil {
		t.Fatal(err)
	}
	// The old home is back, and its message is one that was delivered.
	desk.becomes(first, Delivered)
	if got := laptop.arrivedFiles(); len(got) != 2 {
		t.Errorf("arrived: %v", got)
	}
}

// TestLateArrival: a message that comes while its inbox is looked at is not taken for
// one that is consumed.
func TestLateArrival(t *testing.T) {
	desk, laptop := bound(t)
	file, text := desk.question("late")
	laptop.holds("reviewer", file, text)
	desk.becomes(file, Delivered)
	p := mailbox{"demo", "reviewer"}
	inbox, err := laptop.openInbox(p)
	if err != nil {
		t.Fatal(err)
	}
	defer inbox.Close()
	known := func() bool {
		laptop.ledger.mu.Lock()
		defer laptop.ledger.mu.Unlock()
		return laptop.ledger.arrivals[p][file] != nil
	}
	laptop.recordConsumedArrivals(t.Context(), p, inbox, map[string]foundFile{}, nil) // a look from before
	if !known() || desk.files("reviewer")[file] != text {
		t.Error("it was taken for consumed")
	}
	os.Remove(filepath.Join(laptop.inbox("reviewer"), file))
	await.Until(t, "it is consumed", func() bool { return !known() && len(desk.files("reviewer")) == 0 })
}

// TestRetention: the ledger forgets what has been over for 90 days, and nothing else.
func TestRetention(t *testing.T) {
	desk, laptop := desks(t)
	laptop.start()
	write := func(file string, state arrivalState, age time.Duration) {
		t.Helper()
		a := &arrival{key: arrivalKey{desk.key.ID(), mailbox{"demo", "reviewer"}, file, sha256.Sum256([]byte(file))}, name: file, state: state}
		err := laptop.db.Write(t.Context(), true, func(tx *store.Tx) error {
			if err := sqlAddArrival(tx, a); err != nil {
				return err
			}
			_, err := tx.Exec("UPDATE oacp_arrival SET at = ? WHERE file = ?", time.Now().Add(-age).UnixMilli(), file)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	write("old", reported, retention+time.Hour)
	write("untold", consumed, retention+time.Hour)
	write("young", reported, retention-time.Hour)
	write("unread", stored, 2*retention)
	laptop.stop()
	laptop.start() // counts the rows, and prunes
	known := make(map[string]bool)
	await.Until(t, "what is over for long is forgotten", func() bool { return laptop.ledger.accounts.arrivals.HeldBy(desk.key.ID()) == 2 })
	err := laptop.db.Read(t.Context(), func(tx *store.Tx) error {
		all, err := sqlListArrivals(tx, "TRUE")
		for _, a := range all {
			known[a.key.file] = true
		}
		return err
	})
	if want := map[string]bool{"young": true, "unread": true}; err != nil || !maps.Equal(known, want) {
		t.Errorf("known: %v, %v", known, err)
	}
}
