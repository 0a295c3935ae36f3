package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

const (
	crowdPatience = 2 * time.Minute // for a crowd to connect
	dialsAtOnce   = 16              // of it: many more would wait for each other until they time out
)

// A crowd is peers of one daemon: nodes in this process, each with a key and a socket of its own.
type crowd struct {
	keys  []*identity.Key
	nodes []*peer.Node // of the first keys
	hub   identity.Peer
}

// newCrowd makes the keys of a crowd.
func newCrowd(size int) (*crowd, error) {
	c := &crowd{keys: make([]*identity.Key, size)}
	var err error
	for i := range c.keys {
		if c.keys[i], err = identity.GenerateKey(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// listPeers returns the crowd as the daemon trusts it. The keys are pinned as after a first meeting: the daemon
// is to rest and not to write.
func (c *crowd) listPeers() (peers []identity.Peer) {
	for i, key := range c.keys {
		peers = append(peers, identity.Peer{ID: key.ID(), Name: fmt.Sprint("peer-", i), PQ: identity.HashPQ(key.PublicPQ())})
	}
	return peers
}

// growTo connects the first n of the crowd.
func (c *crowd) growTo(ctx context.Context, n int) error {
	from := len(c.nodes)
	more := make([]*peer.Node, n-from)
	ctx, cancel := context.WithTimeout(ctx, crowdPatience)
	defer cancel()
	var dials errgroup.Group
	dials.SetLimit(dialsAtOnce)
	for i := range more {
		dials.Go(func() (err error) {
			more[i], err = connectNode(ctx, c.keys[from+i], c.hub)
			return err
		})
	}
	err := dials.Wait()
	for _, n := range more {
		if n != nil {
			c.nodes = append(c.nodes, n)
		}
	}
	return err
}

// connectNode makes a node that stays connected to the hub, and returns when it is. It returns the node with
// an error too, for the caller to close.
func connectNode(ctx context.Context, key *identity.Key, hub identity.Peer) (*peer.Node, error) {
	trust := identity.NewMemoryTrustStore()
	if _, err := trust.Trust(hub); err != nil {
		return nil, err
	}
	up := pace.NewSignal()
	n, err := peer.Listen(peer.Config{Key: key, Trust: trust, Listen: loopback, Event: func(e peer.Event) {
		if e.Type == peer.EventUp {
			up.Set()
		}
	}})
	if err != nil {
		return nil, err
	}
	go n.Serve(context.Background()) // ends with the node
	n.Connect(hub.ID)
	select {
	case <-up:
		return n, nil
	case <-ctx.Done():
		return n, context.Cause(ctx)
	}
}

// notify has each of the crowd send the hub n notifies, which it must hold.
func (c *crowd) notify(ctx context.Context, n int) error {
	var sends errgroup.Group
	sends.SetLimit(maxInFlight)
	for _, node := range c.nodes {
		for range n {
			sends.Go(func() error {
				note, err := kinds.CheckEnvelope(wire.NewEnvelope(node.ID(), c.hub.ID, kinds.KindNotify, notice))
				if err != nil {
					return err
				}
				outcome, err := node.Send(ctx, note, true)
				if err == nil && outcome != peer.Held {
					err = fmt.Errorf("a notify was %s and not held", outcome)
				}
				return err
			})
		}
	}
	return sends.Wait()
}

// close ends all nodes.
func (c *crowd) close() {
	var ends errgroup.Group
	for _, n := range c.nodes {
		ends.Go(func() error { n.Close(); return nil })
	}
	ends.Wait()
}
