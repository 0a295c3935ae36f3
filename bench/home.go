package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
)

// A home is a state directory: what a daemon starts on, and where the nodes of
// the variant node have their key and trust too.
type home struct {
	dir string
	id  identity.ID
}

// createHome makes a state directory with an identity.
func createHome(dir string) (home, error) {
	h := home{dir: dir}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return home{}, err
	}
	key, err := identity.CreateKey(h.keyPath())
	if err != nil {
		return home{}, err
	}
	h.id = key.ID()
	return h, nil
}

// createPair makes the homes of two that trust each other; where the far one
// listens is still to be said.
func createPair(f *fleet) (near, far home, err error) {
	near, nearErr := createHome(f.joinPath("near"))
	far, farErr := createHome(f.joinPath("far"))
	if err := errors.Join(nearErr, farErr); err != nil {
		return near, far, err
	}
	return near, far, errors.Join(near.trustPeer("far", far), far.trustPeer("near", near))
}

func (h home) keyPath() string    { return filepath.Join(h.dir, "identity.key") }
func (h home) socketPath() string { return filepath.Join(h.dir, "acp.sock") }

// trustPeer enters a peer, or where it is. Nothing may run on the directory.
func (h home) trustPeer(name string, peer home, addrs ...string) error {
	store, warning, err := identity.OpenTrustStore(h.dir)
	if err := errors.Join(err, warning); err != nil {
		return err
	}
	_, err = store.Trust(identity.Peer{ID: peer.id, Name: name, Addrs: addrs})
	return err
}

// awaitWhoami asks the daemon on the directory who it is, as soon as there is one.
func (h home) awaitWhoami(ctx context.Context) (client.Whoami, error) {
	daemon := client.Client{Socket: h.socketPath()}
	defer daemon.Close()
	for {
		who, err := daemon.Whoami(ctx)
		if err == nil {
			return *who, nil
		}
		if pace.Sleep(ctx, pollEvery) != nil {
			return client.Whoami{}, err
		}
	}
}

// pollEvery lies between two attempts to reach a starting daemon: short enough for the
// figure, too long to slow it down.
const pollEvery = 500 * time.Microsecond
