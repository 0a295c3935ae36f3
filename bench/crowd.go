package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/peer"
)

const (
	trustedWord   = "trusted"
	connectedWord = "connected"
	crowdPatience = 2 * time.Minute // for either
	crowdAtOnce   = 16              // handshakes: many more would wait for each other until they time out
)

// spawnCrowd starts a crowd and returns it when the hub, which does not run yet, trusts it.
func (f *fleet) spawnCrowd(hub home) (*proc, error) {
	if _, err := f.spawnRole("crowd", hub.dir); err != nil {
		return nil, err
	}
	crowd := f.lastProcess()
	return crowd, crowd.awaitWord(trustedWord, crowdPatience)
}

// serveCrowd is many peers of one daemon, each a node with a key and a socket of its
// own. It enters them into the trust store of the daemon's home and says so; it
// connects them once the daemon runs, and says when all are.
func serveCrowd(args []string) error {
	hub := home{dir: args[0]}
	key, err := identity.LoadKey(hub.keyPath())
	if err != nil {
		return err
	}
	hub.id = key.ID()
	printReady("")
	keys, err := trustCrowdKeys(hub)
	if err != nil {
		return err
	}
	fmt.Println(trustedWord)

	ctx, cancel := context.WithTimeout(context.Background(), crowdPatience)
	defer cancel()
	who, err := hub.awaitWhoami(ctx)
	if err != nil {
		return err
	}
	var dialling errgroup.Group
	dialling.SetLimit(crowdAtOnce)
	for _, key := range keys {
		dialling.Go(func() error { return connectCrowdNode(ctx, key, hub.id, who.Listen) })
	}
	if err := dialling.Wait(); err != nil {
		return err
	}
	fmt.Println(connectedWord)
	select {} // until the parent ends this process
}

// trustCrowdKeys makes the keys of the crowd and has the hub trust them.
func trustCrowdKeys(hub home) ([]*identity.Key, error) {
	trust, warning, err := identity.OpenTrustStore(hub.dir)
	if err := errors.Join(err, warning); err != nil {
		return nil, err
	}
	keys := make([]*identity.Key, crowdSize)
	for i := range keys {
		if keys[i], err = identity.GenerateKey(); err != nil {
			return nil, err
		}
		// Pinned, as after a first meeting: the hub is to rest and not to write.
		p := identity.Peer{ID: keys[i].ID(), Name: fmt.Sprint("peer-", i), PQ: identity.HashPQ(keys[i].PublicPQ())}
		if _, err := trust.Trust(p); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// connectCrowdNode makes a node that stays connected to the hub, and returns when it is.
func connectCrowdNode(ctx context.Context, key *identity.Key, hub identity.ID, addrs []string) error {
	trust := identity.NewMemoryTrustStore()
	if _, err := trust.Trust(identity.Peer{ID: hub, Name: "hub", Addrs: addrs}); err != nil {
		return err
	}
	up := pace.NewSignal()
	n, err := peer.Listen(peer.Config{Key: key, Trust: trust, Listen: loopback, Event: func(e peer.Event) {
		if e.Type == peer.EventUp {
			up.Set()
		}
	}})
	if err != nil {
		return err
	}
	go n.Serve(context.Background()) // ends with the process
	n.Connect(hub)
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
