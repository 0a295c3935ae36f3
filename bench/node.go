package main

import (
	"context"
	"errors"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// nodeVariant is two processes with package peer as a library: envelopes, trust and
// the rest of the protocol on top of what the variant quic does.
var nodeVariant = variant{
	name:  "node",
	roles: map[string]role{"near": {connect: connectNode}, "far": {serve: serveNode}},
	start: func(f *fleet) error {
		near, far, err := createPair(f)
		if err != nil {
			return err
		}
		addr, err := f.spawnRole("far", far.dir)
		if err != nil {
			return err
		}
		if err := near.trustPeer("far", far, addr); err != nil {
			return err
		}
		_, err = f.spawnRole("near", near.dir)
		return err
	},
}

func connectNode(args []string) (newCall, error) {
	n, far, err := startNode(args[0], "far")
	if err != nil {
		return nil, err
	}
	return func() func([]byte) ([]byte, error) {
		return func(payload []byte) ([]byte, error) {
			query, err := kinds.CheckEnvelope(wire.NewEnvelope(n.ID(), far, kinds.KindQuery, payload))
			if err != nil {
				return nil, err
			}
			reply, _, err := n.Exchange(context.Background(), query)
			if err != nil {
				return nil, err
			}
			return reply.Payload, nil
		}
	}, nil
}

func serveNode(args []string) error {
	cfg, err := loadNodeConfig(args[0])
	if err != nil {
		return err
	}
	cfg.Exchange = func(_ context.Context, query *peer.Passing) (*wire.Envelope, error) {
		return wire.NewReply(query.Envelope, kinds.KindResponse, query.Payload), nil
	}
	n, err := peer.Listen(cfg)
	if err != nil {
		return err
	}
	printReady(n.Addr().String())
	return n.Serve(context.Background())
}

// loadNodeConfig is a node on a state directory.
func loadNodeConfig(dir string) (peer.Config, error) {
	key, err := identity.LoadKey(home{dir: dir}.keyPath())
	if err != nil {
		return peer.Config{}, err
	}
	trust, warning, err := identity.OpenTrustStore(dir)
	return peer.Config{Key: key, Trust: trust, Listen: loopback}, errors.Join(err, warning)
}

// startNode runs a node on a state directory until the process ends, and returns it with
// the id of the peer that it knows by name.
func startNode(dir, name string) (*peer.Node, identity.ID, error) {
	cfg, err := loadNodeConfig(dir)
	if err != nil {
		return nil, identity.ID{}, err
	}
	known, err := cfg.Trust.Resolve(name)
	if err != nil {
		return nil, identity.ID{}, err
	}
	n, err := peer.Listen(cfg)
	if err != nil {
		return nil, identity.ID{}, err
	}
	go n.Serve(context.Background()) // ends with the process
	return n, known.ID, nil
}
