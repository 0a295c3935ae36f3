package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The profile is of what daemons do with messages, in all of them.
func TestProfile(t *testing.T) {
	for _, name := range []string{"GOFLAGS", profileFolder} {
		t.Setenv(name, os.Getenv(name)) // as it was, for the other tests
	}
	file := filepath.Join(t.TempDir(), "profile")
	err := writeProfile(t.Context(), file, func(ctx context.Context, bin string) error {
		f, err := startFleet(ctx, acpdVariant, bin)
		if err != nil {
			return err
		}
		_, err = f.loadCell(manySmall, time.Second)
		stopFleets([]*fleet{f}, &err)
		if err != nil {
			return err
		}
		return loadChannels(ctx, bin, time.Second)
	})
	if err != nil {
		t.Fatal(err)
	}
	top, err := exec.Command("go", "tool", "pprof", "-top", "-nodecount=0", "-nodefraction=0", file).CombinedOutput()
	// Of the near daemon, of the far one, and of channels.
	for _, method := range []string{"peer.(*Node).Exchange", "peer.(*conn).handleBidiStream", "openintent.(*Engine)"} {
		if err != nil || !strings.Contains(string(top), method) {
			t.Errorf("%s is not in it: %v\n%s", method, err, top)
		}
	}
}
