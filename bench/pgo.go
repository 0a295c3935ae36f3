package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	defaultPGO    = "../cmd/acpd/default.pgo" // where the compiler looks for it
	profileFolder = "ACPD_PROFILES"           // where daemons of the benchmark write profiles

	profileRounds  = 6
	profileChannel = 15 * time.Second // at one daemon, and between two
)

// runProfiledLoad is the load that is profiled: messages of usual sizes, as queries and in channels. It does not
// fill a disk or the memory, as a daemon does not do that all day.
func runProfiledLoad(ctx context.Context, bin string) error {
	for range profileRounds {
		f, err := startFleet(ctx, acpdVariant, bin)
		if err != nil {
			return err
		}
		err = f.loadUsual()
		stopFleets([]*fleet{f}, &err)
		if err != nil {
			return err
		}
	}
	return loadChannels(ctx, bin, profileChannel)
}

// loadUsual sends queries of usual sizes.
func (f *fleet) loadUsual() error {
	for _, size := range []int{200, 1 << 10, 16 << 10} {
		for _, conc := range []int{1, 16, maxInFlight} {
			if _, err := f.loadCell(cell{size, conc}, cellWindow); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeProfile writes to file one CPU profile of all daemons that load starts. They are built without the profile
// that there is, so the next one does not depend on it.
func writeProfile(ctx context.Context, file string, load func(ctx context.Context, bin string) error) error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin, profiles := filepath.Join(dir, "bin"), filepath.Join(dir, "profiles")
	if err := os.Mkdir(profiles, 0o700); err != nil {
		return err
	}
	// Builds and daemons inherit it; this process does nothing else.
	os.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -pgo=off")
	os.Setenv(profileFolder, profiles)
	if err := buildDaemon(ctx, "..", bin); err != nil {
		return err
	}
	if err := load(ctx, bin); err != nil {
		return err
	}
	parts, err := filepath.Glob(filepath.Join(profiles, "*"))
	if err != nil {
		return err
	}
	merge := exec.CommandContext(ctx, "go", append([]string{"tool", "pprof", "-symbolize=none", "-proto", "-output=" + file}, parts...)...)
	if out, err := merge.CombinedOutput(); err != nil {
		return fmt.Errorf("merging %d profiles: %w\n%s", len(parts), err, out)
	}
	return nil
}
