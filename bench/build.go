package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// buildPrograms builds a variant's programs below bin, as the Makefile does; where
// ACPD_PROFILES is set, so that daemons write their profiles there.
// The main module is the folder above this one, where go.mod says that it is too.
func buildPrograms(ctx context.Context, bin string, v variant) error {
	if len(v.programs) == 0 {
		return nil
	}
	tags := "nethttpomithttp2"
	if os.Getenv("ACPD_PROFILES") != "" {
		tags += ",profile"
	}
	args := []string{"build", "-trimpath", "-tags", tags, "-ldflags", "-s -w", "-o", v.binDir(bin) + string(filepath.Separator)}
	for _, p := range v.programs {
		args = append(args, "./cmd/"+p)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = cmp.Or(v.source, "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %v: %w: run the benchmark in its own folder\n%s", v.programs, err, out)
	}
	return nil
}
