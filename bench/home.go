package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
)

// A home is a state directory: what a daemon starts on, and where the nodes of
// the variant node have their key and trust too.
type home struct {
	dir string
	id  identity.ID
}

// makeHome makes a state directory with an identity.
func makeHome(dir string) (home, error) {
	h := home{dir: dir}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return home{}, err
	}
	key, err := identity.CreateKey(h.keyFile())
	if err != nil {
		return home{}, err
	}
	h.id = key.ID()
	return h, nil
}

// makePair makes the homes of two that trust each other; where the far one
// listens is still to be said.
func makePair(f *fleet) (near, far home, err error) {
	if near, err = makeHome(f.path("near")); err != nil {
		return
	}
	if far, err = makeHome(f.path("far")); err != nil {
		return
	}
	if err = near.trust("far", far); err != nil {
		return
	}
	err = far.trust("near", near)
	return
}

func (h home) keyFile() string { return filepath.Join(h.dir, "identity.key") }
func (h home) socket() string  { return filepath.Join(h.dir, "acp.sock") }

// trust enters a peer, or where it is. Nothing may run on the directory.
func (h home) trust(name string, peer home, addrs ...string) error {
	store, warning, err := identity.OpenTrust(h.dir)
	if err := errors.Join(err, warning); err != nil {
		return err
	}
	_, err = store.Trust(identity.Peer{ID: peer.id, Name: name, Addrs: addrs})
	return err
}

// whoami asks the daemon on the directory who it is, as soon as there is one.
func (h home) whoami(ctx context.Context) (client.Whoami, error) {
	var who client.Whoami
	for {
		socket, err := net.Dial("unix", h.socket())
		if err == nil {
			conn := jsonrpc.NewConn(socket, jsonrpc.Options{})
			go conn.Run(ctx) // ends with the call
			err = conn.Call(ctx, client.MethodWhoami, nil, &who)
			conn.Close()
			return who, err
		}
		select {
		case <-ctx.Done():
			return client.Whoami{}, err
		case <-time.After(pollEvery):
		}
	}
}

// pollEvery is how often a starting daemon is looked for: often enough for the
// figure, too seldom to slow it down.
const pollEvery = 500 * time.Microsecond
