package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/admin"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/internal/statedir"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
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
	got := get[client.StateCopy](first, "backup", nil)
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
	second.must("backup", nil, &got) // at once, though the daemon may not have heard of the end of the first
	second.Close()
	await.Until(t, "the copy goes with its connection", func() bool { return !isThere(got.Path) })
	desk.dial().must("backup", nil, &got)

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
		writeFile(t, filepath.Join(dir, name), "half")
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

// changeState starts and ends a daemon on a directory, and then changes its state.db.
func changeState(t *testing.T, dir string, statements ...string) {
	t.Helper()
	start(t, dir, "desk").stop()
	db, err := store.OpenDB(t.Context(), filepath.Join(dir, statedir.StateName))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Write(t.Context(), true, func(tx *store.Tx) error {
		for _, s := range statements {
			if _, err := tx.Exec(s); err != nil {
				return err
			}
		}
		return nil
	}), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// takeBack makes a state.db one that has taken a step less, as far as its version says.
var takeBack = []string{
	"INSERT INTO store_steps (user, done) VALUES ('test', -1)",
	"INSERT INTO daemon_setting (name, value) VALUES ('test', 'before')",
	"PRAGMA user_version = 1",
}

// readState returns a value of the settings, and the version of the tables.
func readState(t *testing.T, path string) (setting string, version int) {
	t.Helper()
	db, err := store.OpenDB(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if version, err = db.ReadVersion(t.Context()); err != nil {
		t.Fatal(err)
	}
	statedb.Query(t, db, &setting, "SELECT value FROM daemon_setting WHERE name = 'test'")
	return setting, version
}

// TestOlderStateIsKept: the file as it was before an upgrade can be put back.
func TestOlderStateIsKept(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	old := filepath.Join(dir, statedir.OldStateName)
	changeState(t, dir, takeBack...)
	if isThere(old) {
		t.Error("a new file counts as an upgrade")
	}
	start(t, dir, "desk").stop()
	if setting, version := readState(t, old); setting != "before" || version != statedir.StateVersion-1 {
		t.Errorf("the file that is kept has %q and version %d", setting, version)
	}
	first, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	start(t, dir, "desk").stop()
	if again, err := os.ReadFile(old); err != nil || !bytes.Equal(first, again) {
		t.Errorf("a start without an upgrade writes it again: %v", err)
	}
}

// TestInterruptedUpgradeKeepsTheOldState: a crash between two steps does not put half an upgrade
// in the place of what was before it.
func TestInterruptedUpgradeKeepsTheOldState(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	changeState(t, dir, append(slices.Clone(takeBack), fmt.Sprintf("PRAGMA user_version = %d", statedir.StateVersion))...)
	start(t, dir, "desk").stop()
	if isThere(filepath.Join(dir, statedir.OldStateName)) {
		t.Error("half an upgrade counts as what was before it")
	}
}

func TestUpgradeOnALowDisk(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	changeState(t, dir, takeBack...)
	var log bytes.Buffer
	low, err := OpenDaemon(t.Context(), Options{Home: dir, Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, Log: &log, measure: func(string) (disk.Space, error) {
		return disk.Space{Free: 1<<30 + 1, Total: 1 << 41}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := low.Close(); err != nil { // it never ran, so nobody writes to the log now
		t.Fatal(err)
	}
	if isThere(filepath.Join(dir, statedir.OldStateName)) || !strings.Contains(log.String(), "no copy is kept") {
		t.Errorf("a copy takes the disk below its floor; the log: %s", log.String())
	}
}

// TestNewerStateIsRefused names both versions and what to do, and leaves the file as it is.
func TestNewerStateIsRefused(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	changeState(t, dir, "UPDATE store_steps SET done = done + 1 WHERE user = 'openintent'", "UPDATE daemon_setting SET value = '9.9.9' WHERE name = 'writer'")
	path := filepath.Join(dir, statedir.StateName)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := OpenDaemon(t.Context(), Options{Home: dir, Listen: "127.0.0.1:0", Version: "0.1.0"})
	newer, ok := errors.AsType[*admin.NewerStateError](err)
	if !ok {
		t.Errorf("it opens: %v", err)
		d.Close()
		return
	}
	if newer.Has != statedir.StateVersion+1 || newer.Knows != statedir.StateVersion {
		t.Errorf("%+v", newer)
	}
	for _, want := range []string{"acpd 9.9.9", "acpd 0.1.0", "acpctl restore", path} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has changed: %v", err)
	}
}
