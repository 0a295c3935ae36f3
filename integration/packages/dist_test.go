//go:build packages

package packages

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/live"
)

// Versions of the releases that the tests make. The first is the older one.
const (
	older = "0.0.1"
	newer = "0.0.2+20261126151200.ecc12d2"
)

// makeNewer makes the release that most tests look at, once, and returns its folder.
var makeNewer = sync.OnceValues(func() (string, error) {
	return makeRelease("../..", newer, nil)
})

// makeRelease runs what make dist runs, for this platform alone, and returns the folder. by is
// the beginning of a command line that runs it.
func makeRelease(source, version string, by []string, env ...string) (string, error) {
	out, err := os.MkdirTemp("", "dist")
	if err != nil {
		return "", err
	}
	argv := append(slices.Clone(by), "go", "run", "-trimpath", ".", "--out", out, "--platforms", here, "--version", version)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = filepath.Join(source, "packaging/dist")
	// What git knows may lie elsewhere and belong to somebody else.
	cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	cmd.Env = append(cmd.Env, env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", &exec.Error{Name: "dist: " + string(text), Err: err}
	}
	return out, nil
}

// newerRelease returns the folder of the release that most tests look at.
func newerRelease(t *testing.T) string {
	t.Helper()
	out, err := makeNewer()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// findFile returns the one file in dir that pattern matches.
func findFile(t *testing.T, dir, pattern string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %q match (%v), want one file", pattern, all, err)
	}
	return all[0]
}

// TestSameTwice: the same source in another folder, on a host of another name, in another time
// zone, language and umask, and later, becomes the same files. The cache of the compiler is
// shared, as it keeps nothing that depends on the folder.
func TestSameTwice(t *testing.T) {
	t.Parallel()
	first := newerRelease(t)
	copied := filepath.Join(live.MakeTempDir(t), "a", "rather", "different", "place")
	copySource(t, "../..", copied)
	other := []string{"unshare", "--uts", "sh", "-c", `umask 077; hostname elsewhere; exec "$@"`, "sh"}
	second, err := makeRelease(copied, newer, other, "TZ=Pacific/Chatham", "LC_ALL=C.UTF-8", "USER=somebody", "HOSTNAME=elsewhere", "GOCACHE="+goEnv(t, "GOCACHE"), "GOMODCACHE="+goEnv(t, "GOMODCACHE"), "HOME="+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadDir(first)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadDir(second)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) || len(want) < 7 {
		t.Errorf("%d files and %d files", len(want), len(got))
	}
	for _, f := range want {
		a, err := os.ReadFile(filepath.Join(first, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(second, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs", f.Name())
		}
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// copySource copies what git would, and what says which commit it is. All files get another time.
func copySource(t *testing.T, from, to string) {
	t.Helper()
	list := exec.Command("git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	list.Dir = from
	names, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(from, name))
		if os.IsNotExist(err) {
			continue // removed, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("cp", "-a", filepath.Join(from, ".git"), to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
