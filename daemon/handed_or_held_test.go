package daemon

import (
	"context"
	"sync"
	"testing"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/wire"
)

// What slow agents keep of a message that another one confirmed is its sender's to
// pay for, however small the message is: beyond its share the receipt waits.
// holds: security.md#the-budget
func TestSlowTakersKeepLittle(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	leave := make(chan struct{})
	for _, name := range []string{"quick", "slow"} {
		laptop.agent(client.AttachParams{Name: name}, func(_ context.Context, r *jsonrpc.Request) {
			if name == "slow" {
				<-leave
			}
			r.Respond(nil)
		})
	}
	asker := desk.dial()
	notify := func() error {
		return asker.call("notify", client.NotifyParams{To: client.To("laptop"), Payload: wire.Payload(`{"topic":"t"}`)}, nil)
	}
	countRefused := func() uint64 {
		var b client.Budget
		laptop.dial().must("budget", nil, &b)
		for _, u := range b.Usage {
			if u.Row == budget.SlowTakers.Name {
				return u.Refused
			}
		}
		return 0
	}
	if err := notify(); err != nil || countRefused() > 0 {
		t.Errorf("with room for it: %v, %d refused", err, countRefused())
	}
	fill := budget.SlowTakers.Peer - agents.SlowTakerBytes
	laptop.attached.SlowTakers.AddUnchecked(desk.ID(), fill)
	defer laptop.attached.SlowTakers.Release(desk.ID(), fill)
	var call sync.WaitGroup
	defer call.Wait()
	defer close(leave)
	call.Go(func() { notify() })
	await.Until(t, "one more is refused", func() bool { return countRefused() > 0 })
}
