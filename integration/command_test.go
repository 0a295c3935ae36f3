package integration

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// buildTime bounds how long a busy machine builds the programs and all that they use.
const buildTime = 5 * time.Minute

// command runs a command that must succeed within a minute and returns what it
// printed on standard output.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	return commandWithin(t, time.Minute, dir, env, name, args...)
}

func commandWithin(t *testing.T, limit time.Duration, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String()
}
