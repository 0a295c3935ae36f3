package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log file stays within its bound, beside one of before that does too; the last lines are
// there, in order, whatever it held when it was opened.
func TestLogFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "acpd.log")
	for round := range 3 {
		l, err := openLogFile(path, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			fmt.Fprintf(l, "round %d line %03d\n", round, i)
		}
		l.file.Close()
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(path + ".old")
		if err != nil {
			t.Fatal(err)
		}
		if len(now) > 1000 || len(before) > 1000 || len(before) < 900 {
			t.Errorf("round %d: %d and %d bytes", round, len(now), len(before))
		}
		var last strings.Builder
		for i := range 100 {
			fmt.Fprintf(&last, "round %d line %03d\n", round, i)
		}
		if both := string(before) + string(now); !strings.HasSuffix(last.String(), both[len(both)-950:]) {
			t.Errorf("round %d: the last lines are\n%s", round, both)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Why acpd does not start is in the log file too.
func TestLogFileHasTheError(t *testing.T) {
	home := stateDir(t)
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte("lisen: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "acpd.log")
	if code := runCommandLine([]string{"--home", home, "--log-file", path}, io.Discard, io.Discard); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	if log, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(log), "acpd: ") || !strings.Contains(string(log), `did you mean "listen"`) {
		t.Errorf("the log has %q, %v", log, err)
	}
	if code := runCommandLine([]string{"--home", home, "--log-file", "/nowhere/acpd.log"}, io.Discard, io.Discard); code != exitFailure {
		t.Errorf("a log file that cannot be: exit code %d", code)
	}
}
