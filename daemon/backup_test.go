package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/internal/statedir"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// TestCopyOfStateLastsAsLongAsItsConnection: there is one copy at a time, for the owner alone.
func TestCopyOfStateLastsAsLongAsItsConnection(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.dial().must("notify", client.NotifyParams{To: client.To("desk"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "build"})}, nil)
	first, second := desk.dial(), desk.dial()
	var got client.StateCopy
	first.must("backup", nil, &got)
	info, err := os.Stat(got.Path)
	if err != nil || info.Mode() != 0o600 || uint64(info.Size()) != got.Bytes || got.Schema != statedir.StateVersion || got.Program != "test" {
		t.Errorf("the copy is %+v with mode %v, %v", got, info.Mode(), err)
	}
	err = second.call("backup", nil, nil)
	if e := kinds.AsError(err); e.Code != kinds.Overloaded || !strings.Contains(e.Message, "under way") {
		t.Errorf("a second copy at the same time: %v", err)
	}
	if held := countHeld(t, got.Path); held != 1 {
		t.Errorf("%d messages are in the copy", held)
	}
	first.Close()
	await.Until(t, "the copy goes with its connection", func() bool { return !isThere(got.Path) })
	await.Until(t, "another connection may have one", func() bool { return second.call("backup", nil, &got) == nil })

	guest := desk.dialAt(filepath.Join(desk.dir, client.AgentFolder, client.SocketName), nil)
	if e := kinds.AsError(guest.call("backup", nil, nil)); e.Code != kinds.NotAuthorized {
		t.Errorf("a guest: %v", e)
	}
	desk.stop()
	if isThere(got.Path) {
		t.Error("the copy outlives its daemon")
	}
}

// countHeld returns how many messages the inbox in a copy of state.db has.
func countHeld(t *testing.T, path string) (held int) {
	t.Helper()
	db, err := store.OpenDB(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	statedb.Query(t, db, &held, "SELECT count(*) FROM daemon_inbox")
	return held
}

// TestCopyHasWhatWasConfirmed: while peers send all the time, a copy has every message that was held when
// it was asked for.
func TestCopyHasWhatWasConfirmed(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	ctx, stop := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	var mu sync.Mutex
	confirmed := make(map[wire.MessageID]bool)
	for range 4 {
		caller := laptop.dial()
		senders.Go(func() {
			for ctx.Err() == nil {
				id := wire.NewMessageID()
				var receipt client.Receipt
				if err := caller.call("notify", client.NotifyParams{To: client.To("desk"), Head: client.Head{ID: id}, Payload: kinds.EncodePayload(&kinds.Notify{Topic: "build", Data: []byte(`"` + long(2000) + `"`)})}, &receipt); err != nil {
					if kinds.AsError(err).Code == kinds.Overloaded { // the inbox is full: the test is long enough
						return
					}
					t.Error(err)
					return
				}
				mu.Lock()
				confirmed[id] = true
				mu.Unlock()
			}
		})
	}
	for range 5 {
		mu.Lock()
		before := make([]wire.MessageID, 0, len(confirmed))
		for id := range confirmed {
			before = append(before, id)
		}
		mu.Unlock()
		owner := desk.dial()
		var got client.StateCopy
		owner.must("backup", nil, &got)
		copied := filepath.Join(t.TempDir(), "state.db")
		text, err := os.ReadFile(got.Path)
		if err == nil {
			err = os.WriteFile(copied, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		owner.Close()
		await.Until(t, "the copy is gone", func() bool { return !isThere(got.Path) })
		db, err := store.OpenDB(t.Context(), copied)
		if err != nil {
			t.Fatal(err)
		}
		missing := 0
		err = db.Read(t.Context(), func(tx *store.Tx) error {
			for _, id := range before {
				var there bool
				if err := tx.QueryRow("SELECT count(*) > 0 FROM daemon_inbox WHERE id = ?", id[:]).Scan(&there); err != nil {
					return err
				}
				if !there {
					missing++
				}
			}
			return nil
		})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		if missing > 0 {
			t.Errorf("%d of %d confirmed messages are not in the copy", missing, len(before))
		}
	}
	stop()
	senders.Wait()
}

func TestNoCopyOnALowDisk(t *testing.T) {
	t.Parallel()
	desk, free := startWithDisk(t)
	owner := desk.dial()
	for _, left := range []uint64{1<<30 + 1, 0} {
		free.Store(left)
		await.Until(t, "the space is measured", func() bool { now, _ := desk.space.MeasureFree(); return now == left })
		if e := kinds.AsError(owner.call("backup", nil, nil)); e.Code != kinds.Overloaded || !strings.Contains(e.Message, "free some space") {
			t.Errorf("a copy would take the disk below the floor: %v", e)
		}
	}
	if isThere(desk.home.filePath(statedir.CopyName)) {
		t.Error("it leaves a file")
	}
	free.Store(1 << 40)
	await.Until(t, "there is space again", func() bool { return owner.call("backup", nil, nil) == nil })
}

func TestLeftoverOfABackupGoesAtTheStart(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	for _, name := range []string{statedir.CopyName, statedir.OldStateTemp} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start(t, dir, "desk")
	for _, name := range []string{statedir.CopyName, statedir.OldStateTemp} {
		if isThere(filepath.Join(dir, name)) {
			t.Errorf("%s stays", name)
		}
	}
}

func TestInterruptedRestoreKeepsADaemonFromStarting(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	if err := os.WriteFile(filepath.Join(dir, statedir.IncompleteName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDaemon(t.Context(), Options{Home: dir, Listen: "127.0.0.1:0"})
	if _, ok := errors.AsType[*statedir.IncompleteError](err); !ok {
		t.Errorf("it opens: %v", err)
		d.Close()
	}
	if isThere(filepath.Join(dir, "identity.key")) {
		t.Error("it has made an identity")
	}
}

func TestLockedByAcpctl(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	lock, err := statedir.LockDir(dir, "acpctl restore")
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenDaemon(t.Context(), Options{Home: dir, Listen: "127.0.0.1:0"})
	if locked, ok := errors.AsType[*statedir.HeldError](err); !ok || locked.Program != "acpctl restore" || !strings.Contains(err.Error(), "wait until it ends") {
		t.Errorf("a directory that acpctl works on: %v", err)
	}
	lock.Close()
	desk := start(t, dir, "desk")
	_, err = statedir.LockDir(dir, "acpctl restore")
	if held, ok := errors.AsType[*statedir.HeldError](err); !ok || held.PID != os.Getpid() || held.Program != "" {
		t.Errorf("a directory with a daemon: %v", err)
	}
	desk.stop()
}
