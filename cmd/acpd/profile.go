//go:build profile

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// This file makes the program that default.pgo is taken of: one that writes a
// profile of its CPU time into the folder ACPD_PROFILES when it ends. It runs the
// daemon before main would, so that what is released knows nothing of it.
func init() {
	f, err := os.Create(filepath.Join(os.Getenv("ACPD_PROFILES"), fmt.Sprint(os.Getpid())))
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "acpd: profile:", err)
		os.Exit(exitFailure)
	}
	limitThreads()
	setCollectorPace()
	code := runCommandLine(os.Args[1:], os.Stdout, os.Stderr)
	pprof.StopCPUProfile()
	os.Exit(code)
}
