package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
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
	var c client.CancelAnswer
	asker.must("cancel", client.CancelParams{Ref: given.ID, Payload: wire.Payload(`{"reason":"plans changed"}`)}, &c)
	if string(c.Payload) != accepted || c.Ref != given.ID {
		t.Errorf("%+v", c)
	}
	in := await.Receive(t, "cancel", cancels)
	if *in.Ref != given.ID || in.Delegation == nil || in.Delegation.Task != "mend it" {
		t.Errorf("%+v", in)
	}
	for _, l := range []*program{asker, worker} {
		if s := l.state(given.ID); s.State != client.TaskCancelled || s.Outcome != "plans changed" {
			t.Errorf("%+v", s)
		}
	}
	worker.refused(kinds.NotFound, "result", client.ResultParams{Ref: given.ID, Payload: completed("")})
	if _, active, _ := laptop.agents.SummarizeLoad(); active != 0 {
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
	var c client.CancelAnswer
	asker.must("cancel", client.CancelParams{Ref: given.ID}, &c)
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
	failed := make(chan error, 1)
	go func() {
		failed <- desk.dial().call("delegate", client.DelegateParams{To: "laptop", Payload: task1("")}, nil)
	}()
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
