package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/acpd/acpd/client"
)

// spawnDaemon starts acpd on a state directory and waits until its socket answers.
// Without --no-mdns among the flags it announces itself, on loopback.
func (f *fleet) spawnDaemon(dir string, flags ...string) (client.Whoami, error) {
	cmd := exec.CommandContext(f.ctx, filepath.Join(f.bin, "acpd"), append([]string{"--home", dir, "--listen", loopback, "--quiet"}, flags...)...)
	cmd.Env = newQuietEnv()
	cmd.Stderr = os.Stderr
	// It does not read its standard input and would outlive us. The kernel means
	// the thread that starts it; those of the Go runtime stay.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return client.Whoami{}, err
	}
	f.procs = append(f.procs, &proc{cmd: cmd, hangUp: func() { cmd.Process.Signal(syscall.SIGTERM) }})
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	who, err := home{dir: dir}.awaitWhoami(ctx)
	if err != nil {
		return who, fmt.Errorf("waiting for acpd: %w", err)
	}
	return who, nil
}

// spawnPair makes the homes of two that trust each other, and starts their daemons.
func (f *fleet) spawnPair() (near, far home, err error) {
	if near, far, err = createPair(f); err == nil {
		err = f.spawnPairOn(near, far)
	}
	return near, far, err
}

// spawnPairOn starts the far daemon, tells the near home its address, and starts the near
// daemon.
func (f *fleet) spawnPairOn(near, far home) error {
	who, err := f.spawnDaemon(far.dir, "--no-mdns")
	if err != nil {
		return err
	}
	if err := near.trustPeer("far", far, who.Listen...); err != nil {
		return err
	}
	_, err = f.spawnDaemon(near.dir, "--no-mdns")
	return err
}
