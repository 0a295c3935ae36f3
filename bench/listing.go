package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

const mailListings = 25

// measureListing measures acpctl as a process: how long it takes to list an inbox, and to do
// next to nothing.
func (m *mailDaemons) measureListing() (measureListing, process figure, err error) {
	measureListing = figure{what: fmt.Sprintf("acpctl oacp inbox, of %d messages", mailWaiting), unit: "ms", target: 60}
	process = figure{what: "acpctl version", unit: "ms"}
	const agent = "listed"
	if err := m.near.makeMailbox(agent); err != nil {
		return measureListing, process, err
	}
	for i := range mailWaiting {
		if err := m.near.writeMail(agent, i); err != nil {
			return measureListing, process, err
		}
	}
	timed := func(f *figure, args ...string) {
		if err != nil {
			return
		}
		began := time.Now()
		if _, err = exec.CommandContext(m.ctx, filepath.Join(m.bin, "acpctl"), args...).Output(); err != nil {
			err = fmt.Errorf("acpctl %s: %w", args[0], err)
		}
		f.values = append(f.values, toMillis(time.Since(began)))
	}
	for range mailListings {
		timed(&measureListing, "oacp", "--oacp-dir", m.near.oacpPath(), "inbox", mailProject, "--agent", agent)
		timed(&process, "version")
	}
	return measureListing, process, err
}
