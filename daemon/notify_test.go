package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestNotifyIsHandedOrHeld(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	asker := desk.dial()
	notify := func(topic string) *client.Receipt {
		t.Helper()
		r := new(client.Receipt)
		asker.must("notify", client.NotifyParams{To: client.To("laptop"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: topic})}, r)
		return r
	}
	if r := notify("nobody"); r.State != client.Held {
		t.Errorf("nobody is attached: %+v", r)
	}
	got := make(chan *client.Inbound, 1)
	laptop.agent(client.AttachParams{Name: "reviewer", Topics: []string{"build"}}, into(t, got, `{}`))
	if r := notify("build.done"); r.State != client.Handed {
		t.Errorf("an agent confirms: %+v", r)
	}
	await.Receive(t, "notify", got)
	if r := notify("builder"); r.State != client.Held {
		t.Errorf("no topic matches: %+v", r)
	}
	laptop.agent(client.AttachParams{Name: "mute", Topics: []string{"silence"}}, func(ctx context.Context, r *jsonrpc.Request) { <-ctx.Done() })
	laptop.agent(client.AttachParams{Name: "sulky", Topics: []string{"refusal"}}, func(ctx context.Context, r *jsonrpc.Request) { r.RespondError(errors.New("no")) })
	if r := notify("refusal"); r.State != client.Held {
		t.Errorf("the agent refuses: %+v", r)
	}
	begun := time.Now()
	if r := notify("silence"); r.State != client.Held {
		t.Errorf("the agent says nothing: %+v", r)
	}
	if took := time.Since(begun); took < 3900*time.Millisecond {
		t.Errorf("held after %v", took)
	}
	topics := func(d *running) (all []string) {
		in := get[client.Inbox](d.dial(), "inbox", client.InboxParams{})
		for _, m := range in.Messages {
			all = append(all, parse[kinds.Notify](t, m.Envelope.Payload).Topic)
		}
		return all
	}
	const want = "[nobody builder refusal silence]"
	if got := fmt.Sprint(topics(laptop)); got != want {
		t.Errorf("inbox %s, want %s", got, want)
	}
	laptop.stop()
	laptop = start(t, laptop.dir, "laptop")
	if got := fmt.Sprint(topics(laptop)); got != want {
		t.Errorf("inbox after a restart %s, want %s", got, want)
	}
}

func TestNotifyToSeveral(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	phone := start(t, stateDir(t), "phone")
	befriend(t, desk, phone)
	laptop.agent(client.AttachParams{Name: "reviewer"}, say(`{}`))
	asker := desk.dial()
	var all []client.Receipt
	p := client.NotifyParams{To: client.ToAll("laptop", "nobody", "phone"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "t"})}
	asker.must("notify", p, &all)
	if len(all) != 3 || all[0].State != client.Handed || all[1].Error == nil || all[1].Error.Code != kinds.UnknownPeer || all[2].State != client.Held || all[0].ID == all[2].ID || all[1].ID.IsZero() || all[1].To != "nobody" {
		t.Errorf("%+v", all)
	}
	p.ID = wire.NewMessageID()
	asker.refused(kinds.Invalid, "notify", p)
	var one client.Receipt
	no := false
	asker.must("notify", client.NotifyParams{To: client.To("laptop"), Payload: p.Payload, Wait: &no}, &one)
	if one.State != client.Sent {
		t.Errorf("%+v", one)
	}
}

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
		b := get[client.Budget](laptop.dial(), "budget", nil)
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
	laptop.agents.SlowTakers.AddUnchecked(desk.ID(), fill)
	defer laptop.agents.SlowTakers.Release(desk.ID(), fill)
	var call sync.WaitGroup
	defer call.Wait()
	defer close(leave)
	call.Go(func() { notify() })
	await.Until(t, "one more is refused", func() bool { return countRefused() > 0 })
}

// Of many notifications at once each has its receipt, none is refused, and what was said is what arrived.
func TestBurstOfNotifies(t *testing.T) {
	desk, laptop := pair(t)
	const many = 500 // each has 10 s
	asker := desk.dial()
	burst := func(state client.ReceiptState) {
		var other atomic.Int64
		var calls sync.WaitGroup
		for i := range many {
			calls.Go(func() {
				var r client.Receipt
				err := asker.call("notify", client.NotifyParams{To: client.To("laptop"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: fmt.Sprint("t", i)})}, &r)
				if (err != nil || r.State != state) && other.Add(1) == 1 {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
		calls.Wait()
	}
	burst(client.Held)
	got, l := make(map[string]bool), laptop.dial()
	for p := (client.InboxParams{Limit: 1000}); ; {
		in := get[client.Inbox](l, "inbox", p)
		for _, m := range in.Messages {
			got[parse[kinds.Notify](t, m.Envelope.Payload).Topic] = true
		}
		if p.After = in.Next; p.After == 0 {
			break
		}
	}
	if len(got) != many {
		t.Errorf("%d of %d are in the inbox", len(got), many)
	}

	heard := make(chan string, many)
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		heard <- parse[kinds.Notify](t, bind(t, r).Payload).Topic
		r.Respond(nil)
	})
	burst(client.Handed)
	for range many {
		delete(got, await.Receive(t, "a notification", heard))
	}
	if len(got) > 0 {
		t.Errorf("%d of %d did not arrive", len(got), many)
	}
}
