package oacp

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/internal/app/cli/frame"
)

// TestFullOutputOfOACP: what is stored stays stored.
func TestFullOutputOfOACP(t *testing.T) {
	f := newDaemon(t)
	home := filepath.Join(f.Home, "oacp")
	t.Setenv("OACP_HOME", home)
	send := []string{"oacp", "send", "demo", "--from", "planner", "--to", "reviewer", "--type", "question", "--subject", "Ready?", "--body", "x"}
	if r := f.Run("oacp", "init", "demo", "--agents", "planner,reviewer"); r.Code != 0 {
		t.Fatal(r)
	}
	if r := f.Run(send...); r.Code != 0 {
		t.Fatal(r)
	}
	for _, form := range []string{"", "--json"} {
		var stderr bytes.Buffer
		args := send
		if form != "" {
			args = append([]string{form}, send...)
		}
		if code := f.RunOnFullDisk(&stderr, args...); code != frame.ExitLocal || !strings.Contains(stderr.String(), "acpctl oacp send: write to standard output: no space left on device; the message was sent, and its id is msg-") {
			t.Errorf("%s: exit code %d\n%s", form, code, &stderr)
		}
	}
	f.WantDiskFull("", "oacp", "inbox", "demo", "--agent", "reviewer")
	// A watch that nobody can hear does not go on.
	for _, form := range []string{"--json=false", "--json"} {
		var stderr bytes.Buffer
		code := f.RunOnFullDisk(&stderr, "oacp", "watch", "--agent", "reviewer", "--project", "demo", "--since", "epoch", "--follow", "--state-id", "of"+strings.TrimPrefix(form, "--json="), form)
		if want := "acpctl oacp watch: write to standard output: no space left on device; messages that are lost there were shown: acpctl oacp inbox has them\n"; code != frame.ExitLocal || stderr.String() != want {
			t.Errorf("%s: exit code %d\n%s", form, code, &stderr)
		}
	}
}
