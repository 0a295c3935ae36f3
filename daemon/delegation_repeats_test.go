package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestRepeatedDelegateRunsOnce(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	var runs atomic.Int64
	began, leave := make(chan struct{}, 8), make(chan struct{})
	work := func(_ context.Context, r *jsonrpc.Request) {
		n := runs.Add(1)
		began <- struct{}{}
		<-leave
		r.Respond(wire.Payload(fmt.Sprintf(`{"accepted":true,"run":%d}`, n)))
	}
	laptop.agent(client.AttachParams{Name: "reviewer"}, work)
	p := client.DelegateParams{Head: client.Head{ID: wire.NewMessageID()}, To: "laptop", Payload: task1("")}
	const want = `{"accepted":true,"run":1}`
	again := func(when string) {
		t.Helper()
		var given client.DelegateAnswer
		desk.dial().must("delegate", p, &given)
		if string(given.Payload) != want || runs.Load() != 1 {
			t.Errorf("%s: %s after %d runs", when, given.Payload, runs.Load())
		}
	}
	// Twice at once, and a third time by a caller who gives up: that ends nothing
	// that others wait for… but the first does run on.
	var first, second client.DelegateAnswer
	var calls sync.WaitGroup
	calls.Go(func() { desk.dial().must("delegate", p, &first) })
	await.Receive(t, "delegate", began)
	calls.Go(func() { desk.dial().must("delegate", p, &second) })
	await.Until(t, "the repeat has come", func() bool { return laptop.watch.CountMessages(client.In)[kinds.KindDelegate] == 2 })
	close(leave)
	calls.Wait()
	if string(first.Payload) != want || string(second.Payload) != want || runs.Load() != 1 {
		t.Errorf("%s and %s after %d runs", first.Payload, second.Payload, runs.Load())
	}
	again("after it")

	// The delegator's memory of it gone, the other side still knows.
	forget := func() {
		t.Helper()
		given := desk.delegations.FindByID(nil, p.ID, client.Given)
		if err := desk.delegations.DeleteUnsent(t.Context(), given); err != nil {
			t.Fatal(err)
		}
	}
	forget()
	again("answered by the peer")
	other := p
	other.Payload = task1(`,"priority":"urgent"`)
	desk.dial().refused(kinds.Invalid, "delegate", other)

	desk.stop()
	desk = start(t, desk.dir, "desk")
	desk.knows(laptop)
	again("after the delegator's restart")

	laptop.stop()
	laptop = start(t, laptop.dir, "laptop")
	laptop.knows(desk)
	desk.knows(laptop)
	laptop.agent(client.AttachParams{Name: "reviewer"}, work)
	again("after the other's restart")
	forget()
	again("answered by the other after its restart")
	forget()
	desk.dial().refused(kinds.Invalid, "delegate", other)
}

// knows tells a daemon where a trusted one is now, and waits for the connection.
func (d *running) knows(other *running) {
	d.t.Helper()
	d.dial().must("trust", client.TrustParams{Peer: other.ID().String(), Addrs: []string{other.node.Addr().String()}}, nil)
	await.Until(d.t, "connected", func() bool { _, ok := d.node.Peer(other.ID()); return ok })
}

func TestLostConnectionDoesNotEndADelegation(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	var runs atomic.Int64
	began, leave := make(chan struct{}, 8), make(chan struct{})
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(ctx context.Context, r *jsonrpc.Request) {
		runs.Add(1)
		began <- struct{}{}
		<-leave
		if ctx.Err() != nil {
			t.Error("the agent was told to give up")
		}
		r.Respond(wire.Payload(accepted))
	})
	p := client.DelegateParams{Head: client.Head{ID: wire.NewMessageID()}, To: "laptop", Payload: task1("")}
	failed := make(chan error, 1)
	go func() { failed <- desk.dial().call("delegate", p, nil) }()
	await.Receive(t, "delegate", began)
	laptop.node.Disconnect(desk.ID())
	err := await.Receive(t, "error", failed)
	if e, ok := errors.AsType[*kinds.Error](err); !ok || e.Delivered() != kinds.DeliveredUnknown {
		t.Errorf("%v", err)
	}
	if s := desk.dial().state(p.ID); s.State != client.TaskUnknown {
		t.Errorf("%+v", s)
	}
	close(leave)
	laptop.node.Connect(desk.ID())
	await.Until(t, "connected", func() bool { _, ok := desk.node.Peer(laptop.ID()); return ok })
	var given client.DelegateAnswer
	desk.dial().must("delegate", p, &given)
	if string(given.Payload) != accepted || runs.Load() != 1 {
		t.Errorf("%s after %d runs", given.Payload, runs.Load())
	}
}

func TestAcceptedDelegationsSurviveARestart(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	given := delegateTo(desk.dial(), "laptop", task1(`,"context":{"k":1}`))
	desk.stop()
	laptop.stop()
	desk, laptop = start(t, desk.dir, "desk"), start(t, laptop.dir, "laptop")
	desk.knows(laptop)
	laptop.knows(desk)
	for _, d := range []*running{desk, laptop} {
		var all client.Tasks
		d.dial().must("tasks", nil, &all)
		if len(all.Tasks) != 1 || all.Tasks[0].ID != given.ID || all.Tasks[0].State != client.TaskAccepted || all.Tasks[0].Task != "mend it" {
			t.Errorf("%+v", all)
		}
	}
	if _, active, _ := laptop.agents.SummarizeLoad(); active != 1 {
		t.Errorf("%d tasks are active", active)
	}
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, nil)
	worker.must("result", client.ResultParams{Ref: given.ID, Payload: completed("mended")}, nil)
	var s client.Task
	desk.dial().must("wait", client.WaitParams{ID: given.ID}, &s)
	if s.State != client.TaskCompleted || s.Outcome != "mended" {
		t.Errorf("%+v", s)
	}
}
