package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A bwrap that has the setuid bit confines a run as another one does.
func TestCanariesUnderASetuidBubblewrap(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("needs to be root, to put another bwrap in its place: nothing is left out here")
		}
		t.Skip("needs to be root, to put another bwrap in its place")
	}
	bwrap, err := findBubblewrap()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(bwrap)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "bwrap")
	if err := os.WriteFile(copied, program, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(copied, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "-m", "sh", "-ec", `mount --bind "$1" "$2"; exec "$3" -test.run '^TestCanaries$/^bubblewrap$' -test.v`, "sh", copied, bwrap, os.Args[0])
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestCanaries/bubblewrap") {
		t.Errorf("%v\n%s", err, out)
	}
}
