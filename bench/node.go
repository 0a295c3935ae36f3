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
	roles: map[string]role{"near": {connect: nodeNear}, "far": {serve: nodeFar}},
	start: func(f *fleet) error {
		near, far, err := makePair(f)
		if err != nil {
			return err
		}
		addr, err := f.spawn("far", far.dir)
		if err != nil {
			return err
		}
		if err := near.trust("far", far, addr); err != nil {
			return err
		}
		_, err = f.spawn("near", near.dir)
		return err
	},
}

func nodeNear(args []string) (newCall, error) {
	cfg, err := nodeConfig(args[0])
	if err != nil {
		return nil, err
	}
	far, err := cfg.Trust.Resolve("far")
	if err != nil {
		return nil, err
	}
	n, err := peer.Listen(cfg)
	if err != nil {
		return nil, err
	}
	go n.Serve(context.Background()) // ends with the process
	return func() func([]byte) ([]byte, error) {
		return func(payload []byte) ([]byte, error) {
			query, err := kinds.Check(wire.NewEnvelope(n.ID(), far.ID, kinds.KindQuery, payload))
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

func nodeFar(args []string) error {
	cfg, err := nodeConfig(args[0])
	if err != nil {
		return err
	}
	cfg.Exchange = func(_ context.Context, query kinds.Checked) (*wire.Envelope, error) {
		return wire.NewReply(query.Envelope, kinds.KindResponse, query.Payload), nil
	}
	n, err := peer.Listen(cfg)
	if err != nil {
		return err
	}
	announce(n.Addr().String())
	return n.Serve(context.Background())
}

// nodeConfig is a node on a state directory.
func nodeConfig(dir string) (peer.Config, error) {
	key, err := identity.LoadKey(home{dir: dir}.keyFile())
	if err != nil {
		return peer.Config{}, err
	}
	trust, warning, err := identity.OpenTrust(dir)
	return peer.Config{Key: key, Trust: trust, Listen: loopback}, errors.Join(err, warning)
}
