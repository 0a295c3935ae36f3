//go:build interop

package interop

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// newest runs a command of the newest reference, and returns what it printed and its exit code.
func (s *station) newest(args ...string) (stdout string, exit int) {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(venv(s.t, "newest"), "bin", "oacp"), args...)
	cmd.Env = append(os.Environ(), "OACP_HOME="+s.home)
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestCarriedSigned: acpd carries mail that the reference has signed so that it passes the
// reference's checks on the other machine, where the receiver takes only mail that does. With
// one byte changed it does not pass.
func TestCarriedSigned(t *testing.T) {
	desk, laptop := stations(t)
	var key struct {
		Stub string `json:"public_stub_path"`
	}
	if err := json.Unmarshal([]byte(strings.Join(desk.must("theirs", "key", "gen", "--agent", "planner", "--json"), "\n")), &key); err != nil || key.Stub == "" {
		t.Fatal(err, key)
	}
	laptop.must("theirs", "trust", "import", "--project", "demo", "--agent", "reviewer", key.Stub)
	write(t, filepath.Join(laptop.inbox("reviewer"), "../config.yaml"), "signing: {verify_mode: enforce}\n")
	write(t, filepath.Join(desk.inbox("planner"), "../config.yaml"), "signing: {sign_messages: true}\n")

	letter := []string{"--from", "planner", "--to", "reviewer", "--type", "question", "--subject", "Signed: é", "--body", "one\n\n  two: é\n"}
	if was := desk.run("ours", append([]string{"send", "demo"}, letter...)...); was.Exit != 1 || !strings.Contains(strings.Join(was.Stderr, ""), "send it with the reference tool") {
		t.Errorf("acpctl sends what is to be signed: %+v", was)
	}
	there := carried(t, desk.send("theirs", letter...).Inbox, laptop)

	// passes reports whether both releases verify the message, and the inbox shows it.
	passes := func() bool {
		t.Helper()
		args := []string{"verify", there, "--project", "demo", "--receiver", "reviewer"}
		pinned := laptop.run("theirs", args...)
		verdict, exit := laptop.newest(args...)
		listed, _ := laptop.newest("inbox", "demo", "--agent", "reviewer")
		shown := strings.Contains(listed, "Signed: é")
		if verified := strings.Contains(verdict, "signed-verified"); verified != shown || verified != (exit == 0) || verified != (pinned.Exit == 0) {
			t.Errorf("verdicts differ: %+v\n%s(%d)\n%s", pinned, verdict, exit, listed)
		}
		return shown
	}
	if !passes() {
		t.Error("what was carried does not pass")
	}
	data, err := os.ReadFile(there)
	if err != nil {
		t.Fatal(err)
	}
	write(t, there, string(bytes.Replace(data, []byte("two"), []byte("twO"), 1)))
	if passes() {
		t.Error("a changed message passes")
	}
}
