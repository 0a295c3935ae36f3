package setup

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A program that says its version without end, or never, is heard for a bounded time.
func TestVersionsOfOddPrograms(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{"claude": "while :; do echo 2.1.330; done", "codex": "exec sleep 60", "opencode": "echo opencode 1.18.33-x"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	o := newOptions(t.TempDir())
	o.Getenv = os.Getenv
	began := time.Now()
	for _, s := range FindStatus(t.Context(), o) {
		if want := map[string]string{"claude": "", "codex": "", "opencode": "1.18.33-x"}[s.Program]; s.Version != want || s.Path != filepath.Join(bin, s.Program) {
			t.Errorf("%+v, want version %q", s, want)
		}
	}
	if took := time.Since(began); took < versionPatience || took > 2*versionPatience {
		t.Errorf("took %s", took)
	}
}
