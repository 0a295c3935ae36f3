package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// buildPrograms builds commands of the main module into dir, as its Makefile does.
// The main module is the folder above this one, where go.mod says that it is too.
func buildPrograms(ctx context.Context, dir string, programs ...string) error {
	if len(programs) == 0 {
		return nil
	}
	args := []string{"build", "-trimpath", "-ldflags", "-s -w", "-o", dir + string(filepath.Separator)}
	for _, p := range programs {
		args = append(args, "./cmd/"+p)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %v: %w: run the benchmark in its own folder\n%s", programs, err, out)
	}
	return nil
}
