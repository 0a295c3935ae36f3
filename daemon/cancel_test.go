package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestCancelReachesTheAgent(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	cancels := make(chan *client.Inbound, 1)
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		if r.Method == "cancel" {
			cancels <- bind(t, r)
		}
		r.Respond(wire.Payload(accepted))
	})
	asker := desk.dial()
	given := delegateTo(asker, "laptop", task1(""))
	c := get[client.CancelAnswer](asker, "cancel", client.CancelParams{Ref: given.ID, Payload: wire.Payload(`{"reason":"abandoned: plans changed"}`)})
	if string(c.Payload) != accepted || c.Ref != given.ID {
		t.Errorf("%+v", c)
	}
	in := await.Receive(t, "cancel", cancels)
	if *in.Ref != given.ID || in.Delegation == nil || in.Delegation.Task != "mend it" {
		t.Errorf("%+v", in)
	}
	for l, outcome := range map[*program]string{asker: "cancelled: abandoned: plans changed", worker: "abandoned: plans changed"} { // it was acked, whatever the reason says
		if s := l.state(given.ID); s.State != client.TaskCancelled || s.IsAbandoned() || s.Outcome != outcome {
			t.Errorf("%+v", s)
		}
	}
	worker.refused(kinds.NotFound, "result", client.ResultParams{Ref: given.ID, Payload: completed("")})
	if _, active, _ := laptop.registry.SummarizeLoad(); active != 0 {
		t.Errorf("%d tasks are active", active)
	}
	asker.refused(kinds.NotFound, "cancel", client.CancelParams{Ref: wire.NewMessageID()})
	asker.refused(kinds.NotFound, "cancel", client.CancelParams{To: "laptop", Ref: wire.NewMessageID()})
}

// An agent that has finished when it is told to give up, and says yes to that too, has finished: nobody
// hears that the delegation was cancelled.
func TestACancelAfterTheResultIsTooLate(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	workers := make(chan *program, 1)
	workers <- laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		if r.Method == "cancel" {
			worker := <-workers
			worker.must("result", client.ResultParams{Ref: *bind(t, r).Ref, Payload: completed("")}, nil)
			workers <- worker
		}
		r.Respond(wire.Payload(accepted))
	})
	asker := desk.dial()
	given := delegateTo(asker, "laptop", task1(""))
	c := get[client.CancelAnswer](asker, "cancel", client.CancelParams{Ref: given.ID})
	ack, err := kinds.ParsePayload[kinds.Ack](c.Payload)
	if err != nil || ack.Accepted || ack.Code != kinds.NotFound || !strings.Contains(ack.Message, "completed already") {
		t.Errorf("%s, %v", c.Payload, err)
	}
	for _, l := range []*program{asker, <-workers} {
		if s := l.state(given.ID); s.State != client.TaskCompleted {
			t.Errorf("%+v", s)
		}
	}
}

func TestCancelBeforeTheAckEndsTheExchange(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	began, ended := make(chan *client.Inbound, 1), make(chan struct{}, 1)
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(ctx context.Context, r *jsonrpc.Request) {
		began <- bind(t, r)
		<-ctx.Done()
		ended <- struct{}{}
	})
	failed := later(desk.dial(), "delegate", client.DelegateParams{To: "laptop", Payload: task1("")})
	in := await.Receive(t, "delegate", began)
	asker := desk.dial()
	asker.must("cancel", client.CancelParams{Ref: in.ID}, nil)
	if err := await.Receive(t, "error", failed); !errors.Is(err, &kinds.Error{Code: kinds.Cancelled}) {
		t.Error(err)
	}
	await.Receive(t, "the agent's rpc.cancel", ended)
	if s := asker.state(in.ID); s.State != client.TaskCancelled {
		t.Errorf("%+v", s)
	}
	await.Until(t, "cancelled there too", func() bool { return laptop.dial().state(in.ID).State == client.TaskCancelled })
}

// A delegation whose deadline passes before its agent has said whether it takes it has
// ended for everybody: for who delegates, for the agent, and in both tables one way or the
// other.
func TestDeadlineBeforeTheAck(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	began, ended := make(chan struct{}, 99), make(chan struct{}, 99)
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(ctx context.Context, r *jsonrpc.Request) {
		began <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
	})
	asker := desk.dial()
	var id wire.MessageID
	for ms := 500; len(began) == 0; ms *= 2 { // until it has come before its deadline
		id = wire.NewMessageID()
		asker.refused(kinds.Timeout, "delegate", client.DelegateParams{Head: client.Head{ID: id}, To: "laptop", Payload: task1(fmt.Sprintf(`,"deadline_ms":%d`, ms))})
	}
	await.Receive(t, "the agent's rpc.cancel", ended)
	for _, l := range []*program{asker, laptop.dial()} {
		await.Until(t, "the end of the delegation", func() bool { return l.state(id).State.IsFinal() })
	}
}

// A delegation whose peer is gone goes on when it is cancelled, and ends here alone when it is abandoned.
// The peer hears of that when both are back, and what its agent reports is not wanted.
func TestAbandonedDelegation(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	asker := desk.dial()
	given := delegateTo(asker, "laptop", task1(""))
	laptop.stop()
	asker.refused(kinds.Unreachable, "cancel", client.CancelParams{Ref: given.ID})
	if s := asker.state(given.ID); s.State != client.TaskAccepted {
		t.Errorf("a cancel without a word of the peer has ended it: %+v", s)
	}
	c := get[client.CancelAnswer](asker, "cancel", client.CancelParams{Ref: given.ID, Payload: wire.Payload(`{"reason":"plans changed"}`), Abandon: true})
	if c.Ref != given.ID || len(c.Payload) > 0 || !strings.HasPrefix(c.Abandoned, "laptop: ") {
		t.Errorf("%+v", c)
	}
	if s := asker.state(given.ID); s.State != client.TaskCancelled || !s.Over || s.Outcome != "abandoned: plans changed" {
		t.Errorf("%+v", s)
	}
	c = client.CancelAnswer{}
	asker.must("cancel", client.CancelParams{Ref: given.ID, Abandon: true}, &c)
	if ack := parse[kinds.Ack](t, c.Payload); ack.Accepted || ack.Code != kinds.NotFound || c.Abandoned != "" {
		t.Errorf("%+v", c)
	}

	desk.stop() // what is still to be told outlives it
	laptop = start(t, laptop.dir, "laptop")
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	if s := worker.state(given.ID); s.State != client.TaskAccepted {
		t.Errorf("%+v", s)
	}
	desk = start(t, desk.dir, "desk")
	laptop.knows(desk)
	desk.knows(laptop)
	await.Until(t, "the peer has heard of it", func() bool { return worker.state(given.ID).State == client.TaskCancelled })
	if s := worker.state(given.ID); s.Outcome != "abandoned: plans changed" {
		t.Errorf("%+v", s)
	}
	worker.refused(kinds.NotFound, "result", client.ResultParams{Ref: given.ID, Payload: completed("mended")})
	if s := desk.dial().state(given.ID); s.State != client.TaskCancelled {
		t.Errorf("%+v", s)
	}
}

// To abandon what the peer has a word on is to cancel it: its word counts.
func TestAbandonedWhereThePeerAnswers(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	asker := desk.dial()
	for _, said := range []string{accepted, `{"accepted":false,"code":"not_authorized","message":"too late to stop"}`} {
		worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
		given := delegateTo(asker, "laptop", task1(""))
		worker.Close()
		laptop.awaitLeft("reviewer")
		worker = laptop.agent(client.AttachParams{Name: "reviewer"}, say(said))
		c := get[client.CancelAnswer](asker, "cancel", client.CancelParams{Ref: given.ID, Abandon: true})
		if string(c.Payload) != said || c.Abandoned != "" {
			t.Errorf("%+v", c)
		}
		want := client.TaskCancelled
		if said != accepted {
			want = client.TaskAccepted
		}
		if s := asker.state(given.ID); s.State != want {
			t.Errorf("%+v", s)
		}
		worker.Close()
		laptop.awaitLeft("reviewer")
	}
	asker.refused(kinds.NotFound, "cancel", client.CancelParams{To: "laptop", Ref: wire.NewMessageID(), Abandon: true})
}

// The peer is told by another message than the cancel that came before: one that it has answered already, but
// whose answer was lost, does not stand for it.
func TestAbandonedIsToldAnew(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	var answer atomic.Value
	answer.Store(accepted)
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		r.Respond(wire.Payload(answer.Load().(string)))
	})
	given := delegateTo(desk.dial(), "laptop", task1(""))
	abandoned := desk.delegations.FindByID(nil, given.ID, client.Given)
	answer.Store(`{"accepted":false,"code":"not_authorized","message":"too late to stop"}`)
	env := wire.NewEnvelope(desk.ID(), laptop.ID(), kinds.KindCancel, wire.Payload(`{"reason":"plans changed"}`))
	env.Ref = &abandoned.ID
	request, err := kinds.CheckEnvelope(env)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := desk.node.Exchange(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if _, err := desk.delegations.EndDelegation(t.Context(), abandoned, delegation.NewAbandonedEnding(wire.NewMessageID(), "plans changed")); err != nil {
		t.Fatal(err)
	}
	answer.Store(accepted)
	if err := desk.tasks.ReportEnd(t.Context(), abandoned); err != nil {
		t.Error(err)
	}
	if s := laptop.dial().state(given.ID); s.State != client.TaskCancelled || s.Outcome != "abandoned: plans changed" {
		t.Errorf("%+v", s)
	}
}

// A peer that cannot say what becomes of an abandoned delegation is told again, one that has refused to hear
// of it is not.
func TestAbandonedIsToldToABusyPeer(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	asker := desk.dial()
	var refusal atomic.Pointer[kinds.Error]
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		if e := refusal.Load(); e != nil && r.Method == "cancel" {
			r.RespondError(e)
			return
		}
		r.Respond(wire.Payload(accepted))
	})
	refusal.Store(kinds.Errorf(kinds.Overloaded, "later"))
	given := delegateTo(asker, "laptop", task1(""))
	c := get[client.CancelAnswer](asker, "cancel", client.CancelParams{Ref: given.ID, Abandon: true})
	if !strings.Contains(c.Abandoned, "later") {
		t.Errorf("%+v", c)
	}
	abandoned := desk.delegations.FindByID(nil, given.ID, client.Given)
	for code, again := range map[kinds.Code]bool{
		kinds.Overloaded: true, kinds.NoAgent: true, kinds.Timeout: true, kinds.Internal: true, kinds.Cancelled: true,
		kinds.NotAuthorized: false, kinds.NotFound: false, kinds.Invalid: false,
	} {
		refusal.Store(kinds.Errorf(code, "no"))
		if err := desk.tasks.ReportEnd(t.Context(), abandoned); (err != nil) != again {
			t.Errorf("after %s: %v, told again: %v", code, err, again)
		}
	}
	refusal.Store(nil)
	if err := desk.tasks.ReportEnd(t.Context(), abandoned); err != nil {
		t.Error(err)
	}
	if s := laptop.dial().state(given.ID); s.State != client.TaskCancelled || s.Outcome != "abandoned" {
		t.Errorf("%+v", s)
	}
}
