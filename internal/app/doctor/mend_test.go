package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/client"
)

// TestMend: modes and a leftover socket are mended, each is said, and nothing is left to mend.
func TestMend(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	s := endedSite(t)
	os.Chmod(s.home, 0o755)
	os.Chmod(filepath.Join(s.home, "trust.yaml"), 0o666)
	leaveSocket(t, s.home)
	all := examine(t, options(t, s.home))
	Mend(all)
	for code, done := range map[Code]string{"home.open": "chmod 700", "file.open": "chmod 600", "daemon.socket": "removed"} {
		if f := findCode(all, code); !strings.HasPrefix(f.Fixed, done) || f.Severity != Note || f.Remedy != "" || !strings.HasPrefix(f.What, "before: ") {
			t.Errorf("%s: %+v", code, f)
		}
	}
	again := examine(t, options(t, s.home))
	for _, f := range again {
		if f.fix != nil {
			t.Errorf("still there: %+v", f)
		}
	}
	s.start()
}

// TestMendLeavesARunningDaemon: the socket of a daemon that has come meanwhile stays.
func TestMendLeavesARunningDaemon(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	s := endedSite(t)
	leaveSocket(t, s.home)
	all := examine(t, options(t, s.home))
	s.start()
	Mend(all)
	if f := findCode(all, "daemon.socket"); f.Fixed != "" || !strings.Contains(f.Remedy, "a daemon is starting") {
		t.Errorf("%+v", f)
	}
	if _, err := os.Stat(filepath.Join(s.home, client.SocketName)); err != nil {
		t.Error(err)
	}
}

// TestExamineChangesNothing: where no daemon runs, every file stays as it was, also a damaged one.
func TestExamineChangesNothing(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	s := endedSite(t)
	s.damage("trust.yaml")
	s.write("wake.yaml", "x")
	s.write("config.yaml", "nonsense: 1\n")
	os.Chmod(filepath.Join(s.home, "identity.key"), 0o644)
	before := readFiles(t, s.home)
	examine(t, options(t, s.home))
	if diff := cmp.Diff(before, readFiles(t, s.home)); diff != "" {
		t.Error(diff)
	}
}
