package backup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/statedir"
)

func TestRestoreKeepsWhatWasThere(t *testing.T) {
	home, id := makeHome(t, stateText(1, "old"), "laptop", "reviewer")
	archive := makeArchive(t, home, id, false)
	trust, _, err := identity.OpenTrustStore(home)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := trust.Resolve("laptop")
	if err := errors.Join(err, trust.Untrust(peer.ID), trust.Save(), os.WriteFile(filepath.Join(home, "state.db"), []byte("new"), 0o600)); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, home)
	_, err = restore(t, archive, Options{Dir: home})
	if _, ok := errors.AsType[*NotEmptyError](err); !ok {
		t.Fatalf("without Force: %v", err)
	}
	checkSame(t, "after a refusal", snapshot(t, home), before)
	r, err := restore(t, archive, Options{Dir: home, Force: true})
	if err != nil {
		t.Fatal(err)
	}
	if returning, blocked := r.ListReturning(); len(returning) != 1 || returning[0].Name != "laptop" || !blocked[peer.ID] {
		t.Errorf("returning %v, blocked %v", returning, blocked)
	}
	if r.Identity != IdentityKept {
		t.Errorf("the identity is %s", r.Identity)
	}
	checkSame(t, "what was there", snapshot(t, r.Aside), before)
	if got := snapshot(t, home); got["state.db"] != stateText(1, "old") || got["identity.key"] != before["identity.key"] {
		t.Errorf("restored: %v", got)
	}

	other, _ := makeHome(t, stateText(1, ""))
	if r, err := restore(t, archive, Options{Dir: other, Force: true}); err != nil || r.Identity != IdentityNone {
		t.Errorf("over another identity: %v, %v", r, err)
	}
	if _, err := os.Stat(filepath.Join(other, "identity.key")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another identity stays with the state: %v", err)
	}
}

func TestRestoreRefuses(t *testing.T) {
	home, id := makeHome(t, stateText(1, "x"), "laptop")
	archive := makeArchive(t, home, id, true)
	held, err := statedir.LockDir(home, "")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	open := t.TempDir()
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"a running daemon", Options{Dir: home, Force: true}, "stop it with acpctl drain, or name another directory"},
		{"a directory that is open", Options{Dir: open}, "chmod 700"},
		{"no folder for it", Options{Dir: filepath.Join(open, "none", "home")}, "make the folder"},
		{"a wrong passphrase", Options{Dir: filepath.Join(t.TempDir(), "new"), Passphrase: askFor("wrong and long")}, "passphrase is wrong"},
	} {
		if _, err := restore(t, archive, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.name == "a wrong passphrase" {
			if _, err := os.Stat(c.o.Dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: the directory stays: %v", c.name, err)
			}
		}
	}
}

// TestNewerFiles: what a newer acpd wrote is refused, whatever the manifest says of it.
func TestNewerFiles(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"state.db": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "state.db"), []byte(stateText(statedir.StateVersion+1, "")), 0o600)
		},
		"wake.yaml": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "wake.yaml"), []byte("# x\nversion: 2\n"), 0o600)
		},
		"trust.yaml": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "trust.yaml"), []byte("# x\nversion: 2\n"), 0o600)
		},
	} {
		home, id := makeHome(t, stateText(1, "x"))
		if err := change(home); err != nil {
			t.Fatal(err)
		}
		_, err := restore(t, makeArchive(t, home, id, false), Options{Dir: filepath.Join(t.TempDir(), "new")})
		newer, ok := errors.AsType[*NewerError](err)
		if !ok || newer.Name != name || newer.Has != newer.Knows+1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInterruptedRestore ends a restore at each of its steps, as a crash would: then the
// directory is as it was, or no daemon starts in it; and another restore makes it whole and keeps
// all that was there.
func TestInterruptedRestore(t *testing.T) {
	crash := errors.New("crash")
	for last, finished := 0, false; !finished; last++ {
		home, id := makeHome(t, stateText(1, "old"), "laptop")
		archive := makeArchive(t, home, id, false)
		restored := wanted(snapshot(t, home), true)
		if err := os.WriteFile(filepath.Join(home, "state.db"), []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, home)
		r, err := Prepare(t.Context(), bytes.NewReader(archive), Options{Dir: home, Force: true})
		if err != nil {
			t.Fatal(err)
		}
		steps := 0
		r.onStep = func() error {
			if steps++; steps > last {
				return crash
			}
			return nil
		}
		err = r.Commit()
		r.lock.Close() // and nothing more
		what := fmt.Sprintf("after %d steps", last)
		switch incomplete := statedir.CheckComplete(home); {
		case err == nil:
			finished = true
			if incomplete != nil {
				t.Error(incomplete)
			}
		case !errors.Is(err, crash):
			t.Fatal(what, err)
		case incomplete == nil && last > 0:
			t.Errorf("%s: a daemon starts", what)
		case incomplete == nil:
			checkSame(t, what, snapshot(t, home), before)
		}
		if finished {
			checkSame(t, what, snapshot(t, home), restored)
			if last < 10 {
				t.Errorf("there are %d steps only", last)
			}
			return
		}
		if last > 0 {
			if _, err := restore(t, archive, Options{Dir: home}); err == nil || !strings.Contains(err.Error(), "interrupted") {
				t.Errorf("%s, without Force: %v", what, err)
			}
		}
		again, err := restore(t, archive, Options{Dir: home, Force: true})
		if err != nil {
			t.Fatal(what, err)
		}
		if again.Identity != IdentityKept || again.Old.Identity != id || len(again.Old.Peers) != 1 {
			t.Errorf("%s: the identity is %s; of before it finds %+v", what, again.Identity, again.Old)
		}
		checkSame(t, what+" and another restore", snapshot(t, home), restored)
		checkSame(t, what+", what was there", snapshot(t, again.Aside), before)
		if err := statedir.CheckComplete(home); err != nil {
			t.Error(what, err)
		}
	}
}

func TestInterruptedRestoreIntoNothing(t *testing.T) {
	home, id := makeHome(t, stateText(1, "old"), "laptop")
	archive := makeArchive(t, home, id, true)
	dir := filepath.Join(t.TempDir(), "new")
	r, err := Prepare(t.Context(), bytes.NewReader(archive), Options{Dir: dir, Passphrase: askFor(passphrase)})
	if err != nil {
		t.Fatal(err)
	}
	left := 4
	r.onStep = func() error {
		if left--; left < 0 {
			return errors.New("crash")
		}
		return nil
	}
	if err := r.Commit(); err == nil {
		t.Fatal("it is not interrupted")
	}
	r.lock.Close()
	if err := statedir.CheckComplete(dir); err == nil {
		t.Error("a daemon starts")
	}
	again, err := restore(t, archive, Options{Dir: dir, Force: true})
	if err != nil {
		t.Fatal(err)
	}
	if again.Identity != IdentityNone || again.Aside != "" || len(again.Old.Peers) != 0 {
		t.Errorf("half of what was restored counts as what was there before: %+v", again)
	}
	checkSame(t, "restored again", snapshot(t, dir), wanted(snapshot(t, home), false))
}
