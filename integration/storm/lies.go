package storm

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/integration/live"
)

// Lie is a change to a file of the package under test, with which a call says what it
// does not know.
type Lie struct{ Name, File, Truth, Text string }

// CheckCatchesLies builds the package with each lie and has the storm make so many calls,
// in which it must notice.
func CheckCatchesLies(t *testing.T, storm string, lies []Lie) {
	if live.IsRaceEnabled() {
		t.Skip("the race detector would not watch the programs that this builds; make test runs them")
	}
	t.Parallel()
	for _, l := range lies {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			file, err := filepath.Abs(l.File)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(text, []byte(l.Truth)); n != 1 {
				t.Fatalf("%s has the truth %d times, want once: let the lie follow the code", l.File, n)
			}
			dir := t.TempDir()
			lying, config := filepath.Join(dir, l.File), filepath.Join(dir, "overlay.json")
			overlay, err := json.Marshal(map[string]map[string]string{"Replace": {file: lying}})
			if err == nil {
				err = os.WriteFile(lying, bytes.Replace(text, []byte(l.Truth), []byte(l.Text), 1), 0o600)
			}
			if err == nil {
				err = os.WriteFile(config, overlay, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-overlay", config, "-run", "^"+storm+"$", ".", "-storm.calls", "10000").CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+storm+"/") {
				t.Errorf("10,000 calls did not show it: %v\n%s", err, out)
			}
		})
	}
}
