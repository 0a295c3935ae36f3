package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

const mailListings = 25

// listing measures acpctl as a process: how long it takes to list an inbox, and to do
// next to nothing.
func (m *mail) listing() (listing, process figure, err error) {
	listing = figure{what: fmt.Sprintf("acpctl oacp inbox, of %d messages", mailWaiting), unit: "ms", target: 60}
	process = figure{what: "acpctl version", unit: "ms"}
	const agent = "listed"
	if err := m.near.mailbox(agent); err != nil {
		return listing, process, err
	}
	for i := range mailWaiting {
		if err := m.near.write(agent, i); err != nil {
			return listing, process, err
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
		f.values = append(f.values, millis(time.Since(began)))
	}
	for range mailListings {
		timed(&listing, "oacp", "--oacp-dir", m.near.oacp(), "inbox", mailProject, "--agent", agent)
		timed(&process, "version")
	}
	return listing, process, err
}
