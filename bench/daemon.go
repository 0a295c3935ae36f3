package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
)

// buildDaemon builds acpd of a checkout below bin, as the Makefile does. If ACPD_PROFILES is set, daemons
// write profiles of their CPU time there.
func buildDaemon(ctx context.Context, checkout, bin string) error {
	tags := "nethttpomithttp2"
	if os.Getenv(profileFolder) != "" {
		tags += ",profile"
	}
	return runGo(ctx, checkout, "build", "-trimpath", "-tags", tags, "-ldflags", "-s -w", "-o", bin+string(filepath.Separator), "./cmd/acpd")
}

// runGo runs the go command in a folder.
func runGo(ctx context.Context, folder string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s in %s: %w: run the benchmark in its own folder\n%s", args[0], folder, err, out)
	}
	return nil
}

// A home is the state directory of a daemon.
type home struct {
	dir string
	id  identity.ID
}

// createHome makes a state directory with an identity and a configuration.
func createHome(dir, config string) (home, error) {
	h := home{dir: dir}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return home{}, err
	}
	key, err := identity.CreateKey(filepath.Join(dir, "identity.key"))
	if err != nil {
		return home{}, err
	}
	h.id = key.ID()
	return h, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o600)
}

func (h home) socketPath() string     { return filepath.Join(h.dir, "acp.sock") }
func (h home) httpSocketPath() string { return filepath.Join(h.dir, "http.sock") }

// trust enters peers. No daemon may run on the directory.
func (h home) trust(peers ...identity.Peer) error {
	store, warning, err := identity.OpenTrustStore(h.dir)
	if err := errors.Join(err, warning); err != nil {
		return err
	}
	for _, p := range peers {
		if _, err := store.Trust(p); err != nil {
			return err
		}
	}
	return nil
}

// A pair is two daemons that trust each other. The near one knows where the far one listens.
type pair struct {
	near, far home
	farAddrs  []string
}

// spawnPair makes the homes of two, starts their daemons and waits until they answer. The far one also
// trusts the crowd.
func (f *fleet) spawnPair(config string, crowd ...identity.Peer) (p pair, err error) {
	if p.near, err = createHome(f.joinPath("near"), config); err != nil {
		return p, err
	}
	if p.far, err = createHome(f.joinPath("far"), config); err != nil {
		return p, err
	}
	if err := p.far.trust(append(crowd, identity.Peer{ID: p.near.id, Name: "near"})...); err != nil {
		return p, err
	}
	if p.farAddrs, err = f.spawnDaemon(p.far); err != nil {
		return p, err
	}
	if err := p.near.trust(identity.Peer{ID: p.far.id, Name: "far", Addrs: p.farAddrs}); err != nil {
		return p, err
	}
	_, err = f.spawnDaemon(p.near)
	return p, err
}

// spawnDaemon starts acpd on a home, waits until its socket answers, and returns where it listens.
func (f *fleet) spawnDaemon(h home) (addrs []string, err error) {
	if _, err := f.spawnProgram("acpd", syscall.SIGTERM, "--home", h.dir, "--listen", loopback, "--quiet", "--no-mdns"); err != nil {
		return nil, err
	}
	daemon := client.Client{Socket: h.socketPath()}
	defer daemon.Close()
	for began := time.Now(); ; {
		who, err := daemon.Whoami(f.ctx)
		if err == nil {
			return who.Listen, nil
		}
		if time.Since(began) > patience {
			return nil, fmt.Errorf("waiting for acpd: %w", err)
		}
		if err := pace.Sleep(f.ctx, time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// spawnAgents starts the agent that answers at the far daemon and the one that asks at the near one.
func (f *fleet) spawnAgents(p pair) error {
	if _, err := f.spawnRole(answerer, p.far.socketPath()); err != nil {
		return err
	}
	_, err := f.spawnRole(asker, p.near.socketPath())
	return err
}
