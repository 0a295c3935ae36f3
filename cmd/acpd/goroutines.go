//go:build faults

package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// This file makes the program that the tests of faults run: one that, on SIGUSR1,
// writes what its goroutines are into the file ACPD_GOROUTINES, so that a test sees
// whether those that a fault started have ended. It is not part of a released
// program.
func init() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for range asked {
			if err := writeGoroutineStacks(os.Getenv("ACPD_GOROUTINES")); err != nil {
				fmt.Fprintln(os.Stderr, "acpd: goroutines:", err)
			}
		}
	}()
}

// writeGoroutineStacks writes a temporary file and then renames it to path, so that it is whole.
func writeGoroutineStacks(path string) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := pprof.Lookup("goroutine").WriteTo(f, 1); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
