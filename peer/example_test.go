package peer_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// Two nodes without a daemon: identity and peer are enough.
func Example() {
	planner, reviewer := newNode(nil), newNode(review)

	// Each must trust the other's key; this program carries them by hand.
	trust(planner, reviewer, "reviewer")
	trust(reviewer, planner, "planner")

	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { planner.node.Serve(ctx) })
	serving.Go(func() { reviewer.node.Serve(ctx) })

	question := kinds.EncodePayload(&kinds.Query{Question: "Is the change safe?"})
	request, err := kinds.CheckEnvelope(wire.NewEnvelope(planner.node.ID(), reviewer.node.ID(), kinds.KindQuery, question))
	if err != nil {
		log.Fatal(err)
	}
	reply, _, err := planner.node.Exchange(ctx, request)
	if err != nil {
		log.Fatal(err)
	}
	response, err := kinds.ParsePayload[kinds.Response](reply.Payload)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(response.Summary)

	cancel()
	serving.Wait()
	// Output: planner asks: Is the change safe? Yes.
}

type agent struct {
	node  *peer.Node
	trust *identity.TrustStore
}

func newNode(answer func(*identity.TrustStore) func(context.Context, *peer.Passing) (*wire.Envelope, error)) agent {
	key, err := identity.GenerateKey() // a daemon keeps it: identity.LoadOrCreateKey
	if err != nil {
		log.Fatal(err)
	}
	a := agent{trust: identity.NewMemoryTrustStore()}
	cfg := peer.Config{Key: key, Trust: a.trust, Listen: "127.0.0.1:0"}
	if answer != nil {
		cfg.Exchange = answer(a.trust)
	}
	if a.node, err = peer.Listen(cfg); err != nil {
		log.Fatal(err)
	}
	return a
}

// review answers queries. The connection has proved the sender of a request.
func review(trust *identity.TrustStore) func(context.Context, *peer.Passing) (*wire.Envelope, error) {
	return func(_ context.Context, request *peer.Passing) (*wire.Envelope, error) {
		if request.Kind != kinds.KindQuery {
			return nil, kinds.Errorf(kinds.UnknownKind, "only queries are answered here")
		}
		q, err := kinds.ParsePayload[kinds.Query](request.Payload)
		if err != nil {
			return nil, err
		}
		asker, _ := trust.FindPeer(request.From)
		answer := kinds.EncodePayload(&kinds.Response{Summary: asker.Name + " asks: " + q.Question + " Yes."})
		return wire.NewReply(request.Envelope, kinds.KindResponse, answer), nil
	}
}

func trust(a, b agent, name string) {
	if _, err := a.trust.Trust(identity.Peer{ID: b.node.ID(), Name: name, Addrs: []string{b.node.Addr().String()}}); err != nil {
		log.Fatal(err)
	}
}
