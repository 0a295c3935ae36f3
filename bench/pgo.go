package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// defaultPGO is the path at which the compiler looks for the profile of acpd.
const defaultPGO = "../cmd/acpd/default.pgo"

// runProfiledLoad is what the profile is of: messages of usual sizes, as queries and in
// channels. What fills a disk or a memory says little of the daemon.
func runProfiledLoad(ctx context.Context, log io.Writer) error {
	p := plan{variants: []variant{acpdVariant}, rounds: 6, window: time.Second}
	for _, size := range []int{200, 1024, 16384} {
		for _, conc := range []int{1, 16, 64} {
			p.cells = append(p.cells, cell{size, conc})
		}
	}
	if _, err := p.runPlan(ctx, log); err != nil {
		return err
	}
	return measureParts(ctx, channelsVariant, &report{out: io.Discard}, log, part{"channels", newForumMeasure((*forum).measureSpeed)}, part{"channels between machines", newForumMeasure((*forum).measureBetweenMachines)})
}

// writeProfile writes to file one CPU profile of all daemons that load starts. They are
// built without the profile that there is: the next one does not depend on it.
func writeProfile(ctx context.Context, file string, log io.Writer, load func(context.Context, io.Writer) error) error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// Builds and daemons inherit it; this process does nothing else.
	os.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -pgo=off")
	os.Setenv("ACPD_PROFILES", dir)
	if err := load(ctx, log); err != nil {
		return err
	}
	parts, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	merge := exec.CommandContext(ctx, "go", append([]string{"tool", "pprof", "-symbolize=none", "-proto", "-output=" + file}, parts...)...)
	if out, err := merge.CombinedOutput(); err != nil {
		return fmt.Errorf("merging %d profiles: %w\n%s", len(parts), err, out)
	}
	return nil
}
