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
	nodes []*peer.Node // nil for one that could not be made
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

// listPeers returns the crowd as the daemon trusts it. The keys are pinned as after a first meeting, so that the
// daemon is idle and does not write them.
func (c *crowd) listPeers() (peers []identity.Peer) {
	for i, key := range c.keys {
		peers = append(peers, identity.Peer{ID: key.ID(), Name: fmt.Sprint("peer-", i), PQ: identity.HashPQ(key.PublicPQ())})
	}
	return peers
}

// connect connects all of the crowd.
func (c *crowd) connect(ctx context.Context) error {
	c.nodes = make([]*peer.Node, len(c.keys))
	ctx, cancel := context.WithTimeout(ctx, crowdPatience)
	defer cancel()
	var dials errgroup.Group
	dials.SetLimit(dialsAtOnce)
	for i := range c.nodes {
		dials.Go(func() (err error) {
			c.nodes[i], err = connectNode(ctx, c.keys[i], c.hub)
			return err
		})
	}
	return dials.Wait()
}

// connectNode makes a node that stays connected to the hub, and returns when it is. The caller closes the node,
// which may come with an error.
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

// notify makes each of the crowd send the hub n notifies, which the hub must hold.
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
		ends.Go(func() error {
			if n != nil {
				n.Close()
			}
			return nil
		})
	}
	ends.Wait()
}
