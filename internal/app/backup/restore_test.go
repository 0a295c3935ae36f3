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

	"github.com/acpd/acpd/internal/sealed"
	"github.com/acpd/acpd/internal/statedir"
)

// A restore changes nothing where there is state, whichever file of it, and says how to move that aside.
func TestRestoreIntoState(t *testing.T) {
	home, id := makeHome(t, stateText(1, "old"), "laptop")
	archive := makeArchive(t, home, id, true)
	for _, name := range listPlaced() {
		dir := t.TempDir()
		if err := errors.Join(os.Chmod(dir, 0o700), os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o600)); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, dir)
		_, err := restore(t, archive, Options{Dir: dir, Passphrase: askFor(passphrase)})
		if err == nil || !strings.HasPrefix(err.Error(), dir+" has "+name+" already: ") || !strings.Contains(err.Error(), "mv "+dir+" "+dir+".") {
			t.Errorf("%s: %v", name, err)
		}
		checkSame(t, name, snapshot(t, dir), before)
	}
	other := t.TempDir()
	if err := errors.Join(os.Chmod(other, 0o700), os.WriteFile(filepath.Join(other, "notes.txt"), []byte("mine"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if r, err := restore(t, archive, Options{Dir: other}); err != nil || r.Identity != IdentityNone {
		t.Errorf("beside a file that is no state: %v, %v", r, err)
	}
	want := wanted(snapshot(t, home), false)
	want["notes.txt"] = "mine"
	checkSame(t, "beside a file that is no state", snapshot(t, other), want)
}

// A backup of an earlier version is restored without the profiles in it.
func TestProfilesInOldBackupsAreSkipped(t *testing.T) {
	home, id := makeHome(t, stateText(1, "x"), "laptop")
	members, err := ListMembers(home, filepath.Join(home, statedir.StateName), true)
	if err != nil {
		t.Fatal(err)
	}
	profile := Member{Name: "profiles/review.yaml", Text: []byte("program: x\n")}
	dir := filepath.Join(t.TempDir(), "new")
	if _, err := restore(t, writeArchive(t, id, append([]Member{profile}, members...)), Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	checkSame(t, "without profiles", snapshot(t, dir), wanted(snapshot(t, home), false))
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
		{"a running daemon", Options{Dir: home}, "stop it with acpctl drain, or name another directory"},
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

// TestNewerFiles: a state.db or a trust store that a newer acpd wrote is refused, whatever the manifest says of it.
func TestNewerFiles(t *testing.T) {
	for name, text := range map[string]string{
		"state.db":   stateText(statedir.StateVersion+1, ""),
		"trust.yaml": string(sealed.AppendChecksum([]byte("version: 99\nsequence: 1\n"))),
	} {
		home, id := makeHome(t, stateText(1, "x"))
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := restore(t, makeArchive(t, home, id, false), Options{Dir: filepath.Join(t.TempDir(), "new")}); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "version") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInterruptedRestore ends a restore at each of its steps, as a crash would: then nothing was changed, or no daemon
// starts in the directory; and another restore makes it whole.
func TestInterruptedRestore(t *testing.T) {
	crash := errors.New("crash")
	home, id := makeHome(t, stateText(1, "old"), "laptop")
	archive := makeArchive(t, home, id, true)
	for last, finished := 0, false; !finished; last++ {
		dir := filepath.Join(t.TempDir(), "new")
		r, err := Prepare(t.Context(), bytes.NewReader(archive), Options{Dir: dir, Passphrase: askFor(passphrase)})
		if err != nil {
			t.Fatal(err)
		}
		steps := 0
		r.step = func() error {
			if steps++; steps > last {
				return crash
			}
			return nil
		}
		err = r.Commit()
		r.lock.Close() // and nothing more
		what := fmt.Sprintf("after %d steps", last)
		incomplete := statedir.CheckComplete(dir)
		switch {
		case err == nil:
			finished = true
			if last < 8 {
				t.Errorf("there are %d steps only", last)
			}
		case !errors.Is(err, crash):
			t.Fatal(what, err)
		case last == 0:
			checkSame(t, what, snapshot(t, dir), nil)
		case incomplete == nil || !strings.Contains(incomplete.Error(), "restore FILE again"):
			t.Errorf("%s a daemon starts: %v", what, incomplete)
		}
		if !finished {
			again, err := restore(t, archive, Options{Dir: dir})
			if err != nil || again.Identity != IdentityNone {
				t.Fatal(what, again, err)
			}
		}
		checkSame(t, what, snapshot(t, dir), wanted(snapshot(t, home), finished))
		if err := statedir.CheckComplete(dir); err != nil {
			t.Error(what, err)
		}
	}
}
