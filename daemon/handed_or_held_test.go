package daemon

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// What slow agents keep of a message that another one confirmed is its sender's to
// pay for: beyond its share the receipt waits.
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
	// There is room for one message more: to fill the share with messages takes longer on a busy machine than the 4 s
	// for which a slow agent keeps the first of them.
	payload := kinds.EncodePayload(&kinds.Notify{Topic: "t", Data: jsontext.Value(`"` + long(4<<10) + `"`)})
	fill := budget.SlowTakers.Peer - int64(len(payload))*3/2
	if err := laptop.slowTakers.Reserve(desk.ID(), fill); err != nil {
		t.Fatal(err)
	}
	defer laptop.slowTakers.Release(desk.ID(), fill)
	asker := desk.dial()
	notify := func() error {
		return asker.call("notify", client.NotifyParams{To: client.To("laptop"), Payload: payload}, nil)
	}
	if err := notify(); err != nil {
		t.Error(err)
	}
	var calls sync.WaitGroup
	defer calls.Wait()
	defer close(leave)
	var over atomic.Bool
	defer over.Store(true)
	for range 2 {
		calls.Go(func() {
			for !over.Load() { // on a busy machine the first may have had their time by now
				notify()
			}
		})
	}
	await.Until(t, "more is refused", func() bool {
		var b client.Budget
		laptop.dial().must("budget", nil, &b)
		for _, u := range b.Usage {
			if u.Row == budget.SlowTakers.Name {
				return u.Held <= budget.SlowTakers.Peer && u.Refused > 0
			}
		}
		return false
	})
}
