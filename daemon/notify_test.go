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
		var in client.Inbox
		d.dial().must("inbox", client.InboxParams{}, &in)
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

// TestBurstOfNotifies: each has its receipt, none is refused, and what was said is
// what arrived. How long it takes is for the benchmarks to say.
func TestBurstOfNotifies(t *testing.T) {
	n := 2000 // each has 10 s
	if raceEnabled {
		n = 500
	}
	burst := func(t *testing.T, n int, state client.ReceiptState, desk *running) {
		asker := desk.dial()
		var other atomic.Int64
		var calls sync.WaitGroup
		for i := range n {
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
	t.Run("handed", func(t *testing.T) {
		desk, laptop := pair(t)
		var mu sync.Mutex
		got := make(map[string]int)
		laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
			topic := parse[kinds.Notify](t, bind(t, r).Payload).Topic
			mu.Lock()
			got[topic]++
			mu.Unlock()
			r.Respond(nil)
		})
		burst(t, n, client.Handed, desk)
		mu.Lock()
		defer mu.Unlock()
		if len(got) != n {
			t.Errorf("%d of %d arrived", len(got), n)
		}
	})
	t.Run("held", func(t *testing.T) {
		desk, laptop := pair(t)
		n := min(n, int(budget.Inbox.Peer))
		burst(t, n, client.Held, desk)
		got := make(map[string]bool)
		l := laptop.dial()
		for p := (client.InboxParams{Limit: 1000}); ; {
			var in client.Inbox
			l.must("inbox", p, &in)
			for _, m := range in.Messages {
				got[parse[kinds.Notify](t, m.Envelope.Payload).Topic] = true
			}
			if p.After = in.Next; p.After == 0 {
				break
			}
		}
		if len(got) != n {
			t.Errorf("%d of %d are in the inbox", len(got), n)
		}
	})
}
