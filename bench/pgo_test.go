package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The profile is of what daemons do with messages, in all of them.
func TestProfile(t *testing.T) {
	for _, name := range []string{"GOFLAGS", "ACPD_PROFILES"} {
		t.Setenv(name, os.Getenv(name)) // as it was, for the other tests
	}
	file := filepath.Join(t.TempDir(), "profile")
	p := plan{variants: []variant{acpdVariant}, cells: []cell{{200, 16}}, rounds: 1, window: time.Second}
	err := writeProfile(t.Context(), file, io.Discard, func(ctx context.Context, log io.Writer) error {
		_, err := p.runPlan(ctx, log)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	top, err := exec.Command("go", "tool", "pprof", "-top", "-nodecount=0", "-nodefraction=0", file).CombinedOutput()
	for _, method := range []string{"peer.(*Node).Exchange", "peer.(*conn).handleBidiStream"} { // of the near one, of the far one
		if err != nil || !strings.Contains(string(top), method) {
			t.Errorf("%s is not in it: %v\n%s", method, err, top)
		}
	}
}
