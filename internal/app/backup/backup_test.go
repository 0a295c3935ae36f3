package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const passphrase = "correct horse battery staple"

func TestRoundTrip(t *testing.T) {
	home, id := makeHome(t, stateText(1, strings.Repeat("rows", 100_000)), "laptop", "reviewer")
	if err := os.WriteFile(filepath.Join(home, "state.db-wal"), []byte("log"), 0o600); err != nil {
		t.Fatal(err)
	}
	archive := makeArchive(t, home, id, true)
	if bytes.Contains(archive, []byte("PRIVATE KEY")) {
		t.Error("the key is in the archive as it is")
	}
	before := snapshot(t, home)
	for name, c := range map[string]struct {
		ask    func() (string, error)
		source IdentitySource
	}{"with the identity": {askFor(passphrase), IdentityFromBackup}, "without": {nil, IdentityNone}} {
		dir := filepath.Join(t.TempDir(), "new")
		r, err := restore(t, archive, Options{Dir: dir, Passphrase: c.ask})
		if err != nil {
			t.Fatal(name, err)
		}
		if r.Identity != c.source || len(r.Peers) != 2 || r.Peers[0].Name != "laptop" {
			t.Errorf("%s: %+v", name, r)
		}
		checkSame(t, name, snapshot(t, dir), wanted(before, c.ask != nil))
		info, err := os.Stat(filepath.Join(dir, "state.db"))
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: state.db has mode %v, %v", name, info.Mode(), err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "res*")); left != nil {
			t.Errorf("%s: it leaves %v", name, left)
		}
	}
}

// TestWriteFindsChanges: a file that changes while it is read spoils no archive unseen.
func TestWriteFindsChanges(t *testing.T) {
	home, id := makeHome(t, stateText(1, strings.Repeat("x", 1<<20)), "laptop")
	members, err := ListMembers(home, filepath.Join(home, "state.db"), true)
	if err != nil {
		t.Fatal(err)
	}
	change := writerFunc(func(p []byte) (int, error) {
		return len(p), os.WriteFile(filepath.Join(home, "state.db"), []byte(stateText(1, strings.Repeat("y", 1<<20))), 0o600)
	})
	if err := Write(t.Context(), change, &Manifest{Identity: id}, members); err == nil || !strings.Contains(err.Error(), "changed while it was read") {
		t.Errorf("it changes: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Write(ended, io.Discard, &Manifest{Identity: id}, members); !errors.Is(err, context.Canceled) {
		t.Errorf("its context ends: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
