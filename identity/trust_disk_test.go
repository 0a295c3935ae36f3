package identity

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/acpd/acpd/internal/durable"
)

func read(t testing.TB, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// saveUnsaved saves the store, of which somebody must have been told that its files differ.
func saveUnsaved(t *testing.T, store *TrustStore) {
	t.Helper()
	select {
	case <-store.UnsavedSignal():
	default:
		t.Error("nobody is told that the files differ")
	}
	if err := store.Save(); err != nil {
		t.Fatal(err)
	}
}

// A change whose files are in place and whose folder cannot be synced has failed: Save takes it
// back, so that the next start does not trust whom nobody trusted.
func TestTrustThatIsNotDurableIsTakenBack(t *testing.T) {
	dir := t.TempDir()
	store, _, err := OpenTrustStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk is gone")
	store.files.SyncDir = func(string) error { return broken }
	if err := second(store.Trust(Peer{ID: testID(1), Name: "desk"})); !errors.Is(err, broken) {
		t.Errorf("trust: %v", err)
	}
	store.files.SyncDir = durable.SyncDir
	saveUnsaved(t, store)
	again, _, err := OpenTrustStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, trusted := again.FindPeer(testID(1)); trusted {
		t.Error("the next start trusts a peer whose trust has failed")
	}
}

// A trust whose second file cannot be renamed, and whose first one cannot be put back, is in one
// file: Save takes it back.
func TestTrustThatCannotBeUndone(t *testing.T) {
	dir := t.TempDir()
	store := openTrust(t, dir)
	trust(t, store, Peer{ID: testID(1), Name: "desk"})
	broken, renames := errors.New("the disk is gone"), 0
	store.files.Rename = func(from, to string) error {
		if renames++; renames > 1 {
			return broken
		}
		return os.Rename(from, to)
	}
	if err := second(store.Trust(Peer{ID: testID(2), Name: "laptop"})); !errors.Is(err, broken) || renames != 3 {
		t.Errorf("trust: %v, after %d renames", err, renames)
	}
	store.files.Rename = os.Rename
	saveUnsaved(t, store)
	if again := openTrust(t, dir); again.Len() != 1 || !same(store, again) {
		t.Errorf("the next start trusts %v", again.Peers())
	}
}

// Files that were made and not synced are made again.
func TestCreateFilesThatAreNotDurable(t *testing.T) {
	store, _, err := OpenTrustStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk is gone")
	store.files.SyncDir = func(string) error { return broken }
	for range 2 {
		if err := store.CreateFiles(); !errors.Is(err, broken) {
			t.Errorf("create: %v", err)
		}
	}
	store.files.SyncDir = durable.SyncDir
	if err := store.CreateFiles(); err != nil {
		t.Error(err)
	}
}
