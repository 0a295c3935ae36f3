package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/kinds"
)

const (
	burstSize = 10_000
	heldSize  = 2_500 // what an inbox holds of one peer
	bursts    = 5
)

// measureBurst sends notifies over one connection to a daemon, all at once, and waits
// for every receipt: first without an agent at the far end, then with one.
func measureBurst(f *fleet) ([]figure, error) {
	near, far, err := f.spawnPair()
	if err != nil {
		return nil, err
	}
	asker, _, err := connectAgent(near.socketPath(), nil)
	if err != nil {
		return nil, err
	}
	defer asker.Close()
	held := figure{what: fmt.Sprintf("%d notifies in a burst, held", heldSize), unit: "s", target: 0.5}
	handed := figure{what: fmt.Sprintf("%d notifies in a burst, handed", burstSize), unit: "s", target: 2}
	took, err := sendBurst(f.ctx, asker, heldSize, client.Held)
	if err != nil {
		return nil, err
	}
	held.values = append(held.values, took.Seconds())
	agent, _, err := connectAgent(far.socketPath(), func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) { r.Respond(nil) })
	if err != nil {
		return nil, err
	}
	defer agent.Close()
	if err := agent.Call(f.ctx, client.MethodAttach, client.AttachParams{Name: "taker"}, nil); err != nil {
		return nil, err
	}
	for range bursts {
		took, err := sendBurst(f.ctx, asker, burstSize, client.Handed)
		if err != nil {
			return nil, err
		}
		handed.values = append(handed.values, took.Seconds())
	}
	return []figure{held, handed}, nil
}

// sendBurst returns how long it took until all had their receipts, which must be of that
// state.
func sendBurst(ctx context.Context, asker *jsonrpc.Conn, n int, state client.ReceiptState) (time.Duration, error) {
	var calls errgroup.Group
	began := time.Now()
	for i := range n {
		calls.Go(func() error {
			var r client.Receipt
			p := client.NotifyParams{To: client.To("far"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: fmt.Sprint("t", i)})}
			if err := asker.Call(ctx, client.MethodNotify, p, &r); err != nil {
				return err
			}
			if r.State != state {
				return fmt.Errorf("notify: the receipt says %q", r.State)
			}
			return nil
		})
	}
	err := calls.Wait()
	return time.Since(began), err
}
