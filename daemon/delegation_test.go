package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

const accepted = `{"accepted":true,"estimated_ms":5}`

func task1(more string) wire.Payload { return wire.Payload(`{"task":"mend it"` + more + `}`) }

func delegateTo(l *local, to string, payload wire.Payload) *client.DelegateAnswer {
	l.t.Helper()
	out := new(client.DelegateAnswer)
	l.must("delegate", client.DelegateParams{To: to, Payload: payload}, out)
	return out
}

func (l *local) state(id wire.MessageID) *client.Task {
	l.t.Helper()
	out := new(client.Task)
	l.must("task", client.TaskParams{ID: id}, out)
	return out
}

func completed(outcome string) wire.Payload {
	return kinds.EncodePayload(&kinds.Result{Status: "completed", Outcome: outcome})
}

func TestDelegateIsAckedAndItsResultReceived(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	tasks := make(chan *client.Inbound, 1)
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, into(t, tasks, accepted))
	results := make(chan *client.Inbound, 4)
	planner := desk.agent(client.AttachParams{Name: "planner"}, into(t, results, `{}`))
	desk.agent(client.AttachParams{Name: "bystander"}, func(_ context.Context, r *jsonrpc.Request) {
		t.Errorf("the bystander got a %s", r.Method)
	})

	given := delegateTo(planner, "laptop", task1(`,"deadline_ms":60000`))
	if string(given.Payload) != accepted || given.From != laptop.ID() {
		t.Errorf("%+v %s", given, given.Payload)
	}
	in := await.Receive(t, "delegate", tasks)
	if in.ID != given.ID || in.DeadlineMS != 60000 || in.Name != "desk" {
		t.Errorf("%+v", in)
	}
	for _, l := range []*local{planner, worker} {
		if s := l.state(given.ID); s.State != client.TaskAccepted || s.Task != "mend it" || time.Until(s.Deadline.Time) > time.Minute || time.Until(s.Deadline.Time) < 30*time.Second {
			t.Errorf("%+v", s)
		}
	}

	waited := make(chan *client.Task, 2)
	wait := func(after *uint64) {
		out := new(client.Task)
		if err := desk.dial().call("wait", client.WaitParams{ID: given.ID, AfterPartials: after}, out); err != nil {
			t.Error(err)
		}
		waited <- out
	}
	none := uint64(0)
	go wait(&none)
	var r client.Receipt
	partial := wire.Payload(`{"status":"partial","outcome":"half","data":[1]}`)
	worker.must("result", client.ResultParams{Ref: given.ID, Payload: partial}, &r)
	if s := await.Receive(t, "partial", waited); s.Partials != 1 || s.State != client.TaskAccepted || string(s.Partial) != string(partial) {
		t.Errorf("%+v", s)
	}
	if in := await.Receive(t, "partial", results); in.Kind != kinds.KindResult || *in.Ref != given.ID {
		t.Errorf("%+v", in)
	}

	go wait(nil)
	final := wire.Payload(`{"status":"completed","outcome":"mended","data":{"n":12345678901234567890}}`)
	worker.must("result", client.ResultParams{Ref: given.ID, Payload: final}, &r)
	if r.State != client.Handed {
		t.Errorf("%+v", r)
	}
	if s := await.Receive(t, "result", waited); s.State != client.TaskCompleted || s.Outcome != "mended" || string(s.Result) != string(final) || s.Peer != "laptop" {
		t.Errorf("%+v", s)
	}
	in = await.Receive(t, "result", results)
	if string(in.Payload) != string(final) || in.Delegation == nil || in.Delegation.Task != "mend it" || in.Delegation.ID != given.ID {
		t.Errorf("%+v", in)
	}
	if s := worker.state(given.ID); s.State != client.TaskCompleted || s.Direction != client.Taken {
		t.Errorf("%+v", s)
	}
	// The first end wins, on both sides.
	worker.refused(kinds.NotFound, "result", client.ResultParams{Ref: given.ID, Payload: final})
	var c client.CancelAnswer
	planner.must("cancel", client.CancelParams{Ref: given.ID}, &c)
	if ack := parse[kinds.Ack](t, c.Payload); ack.Accepted || ack.Code != kinds.NotFound {
		t.Errorf("%s", c.Payload)
	}
}

func TestResultIsHeldWhereNobodyIsAttached(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	asker := desk.dial()
	given := delegateTo(asker, "laptop", task1(""))
	var r client.Receipt
	id := wire.NewMessageID()
	p := client.ResultParams{Head: client.Head{ID: id}, Ref: given.ID, Payload: completed("mended")}
	worker.must("result", p, &r)
	if r.State != client.Held {
		t.Errorf("%+v", r)
	}
	worker.must("result", p, &r) // a repeat, by the same id
	if r.State != client.Held {
		t.Errorf("%+v", r)
	}
	var in client.Inbox
	asker.must("inbox", client.InboxParams{Kinds: []string{"result"}, Peers: []string{"laptop"}}, &in)
	if len(in.Messages) != 1 || in.Messages[0].Envelope.ID != id || in.Messages[0].Envelope.Payload == nil {
		t.Errorf("%+v", in)
	}
	if s := asker.state(given.ID); s.State != client.TaskCompleted {
		t.Errorf("%+v", s)
	}
}

func TestErrorEndsADelegation(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	asker := desk.dial()
	given := delegateTo(asker, "laptop", task1(""))
	worker.must("error", client.ResultParams{Ref: given.ID, Payload: kinds.EncodePayload(kinds.Errorf(kinds.Internal, "no glue"))}, nil)
	if s := asker.state(given.ID); s.State != client.TaskFailed || s.Outcome != "no glue" {
		t.Errorf("%+v", s)
	}
}

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
	for _, l := range []*local{asker, worker} {
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
	workers := make(chan *local, 1)
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
	for _, l := range []*local{asker, <-workers} {
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
	ended := make(chan struct{}, 1)
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(ctx context.Context, r *jsonrpc.Request) {
		<-ctx.Done()
		ended <- struct{}{}
	})
	asker := desk.dial()
	id := wire.NewMessageID()
	asker.refused(kinds.Timeout, "delegate", client.DelegateParams{Head: client.Head{ID: id}, To: "laptop", Payload: task1(`,"deadline_ms":500`)})
	await.Receive(t, "the agent's rpc.cancel", ended)
	for _, l := range []*local{asker, laptop.dial()} {
		await.Until(t, "the end of the delegation", func() bool { return l.state(id).State.IsFinal() })
	}
}

func TestRefusedDelegate(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	asker := desk.dial()
	id := wire.NewMessageID()
	p := client.DelegateParams{Head: client.Head{ID: id}, To: "laptop", Payload: task1("")}
	asker.refused(kinds.NoAgent, "delegate", p)
	if s := asker.state(id); s.State != client.TaskRefused {
		t.Errorf("%+v", s)
	}
	const no = `{"accepted":false,"code":"not_authorized","message":"not me"}`
	laptop.agent(client.AttachParams{Name: "reviewer"}, say(no))
	var given client.DelegateAnswer
	asker.must("delegate", p, &given) // nothing was done, so the same id may try again
	if string(given.Payload) != no {
		t.Errorf("%s", given.Payload)
	}
	if s := asker.state(id); s.State != client.TaskRefused {
		t.Errorf("%+v", s)
	}
	if _, active, _ := laptop.agents.SummarizeLoad(); active != 0 {
		t.Errorf("%d tasks are active", active)
	}
}

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
	await.Until(t, "the repeat has come", func() bool { return laptop.messages.received[kinds.KindDelegate].Load() == 2 })
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

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	asker := desk.dial()
	given := delegateTo(asker, "laptop", task1(""))
	asker.refused(kinds.Timeout, "wait", client.WaitParams{ID: given.ID, TimeoutMS: 20})
	asker.refused(kinds.NotFound, "wait", client.WaitParams{ID: wire.NewMessageID()})
	brief := delegateTo(asker, "laptop", task1(`,"deadline_ms":100`))
	var s client.Task
	asker.must("wait", client.WaitParams{ID: brief.ID}, &s)
	if s.State != client.TaskExpired || !s.Over {
		t.Errorf("%+v", s)
	}
	silent := delegateTo(asker, "laptop", task1(`,"report_back":false`))
	asker.must("wait", client.WaitParams{ID: silent.ID}, &s)
	if s.State != client.TaskAccepted || !s.Over {
		t.Errorf("%+v", s)
	}
	// It is the daemon that ends, and not the caller.
	waiting := make(chan error, 1)
	go func() { waiting <- asker.call("wait", client.WaitParams{ID: given.ID}, nil) }()
	asker.must("whoami", nil, nil) // answered after the wait has come
	desk.stop()
	if err := await.Receive(t, "the end of the wait", waiting); !errors.Is(err, &kinds.Error{Code: kinds.DaemonUnavailable}) {
		t.Error(err)
	}
}

func TestDetachedAgentsRequestsFail(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	began := make(chan struct{}, 2)
	agent := laptop.agent(client.AttachParams{Name: "reviewer"}, func(ctx context.Context, _ *jsonrpc.Request) {
		began <- struct{}{}
		<-ctx.Done()
	})
	failed := make(chan error, 2)
	go func() {
		failed <- desk.dial().call("query", client.QueryParams{To: "laptop", Payload: query("?")}, nil)
	}()
	go func() {
		failed <- desk.dial().call("delegate", client.DelegateParams{To: "laptop", Payload: task1("")}, nil)
	}()
	await.Receive(t, "request", began)
	await.Receive(t, "request", began)
	agent.Close()
	for range 2 {
		if err := await.Receive(t, "error", failed); !errors.Is(err, &kinds.Error{Code: kinds.NoAgent}) {
			t.Error(err)
		}
	}
}

// TestLostTaskIsReportedAgain: a report that cannot be read, because the daemon stops or its
// disk fails, is still owed.
func TestLostTaskIsReportedAgain(t *testing.T) {
	t.Parallel()
	d, err := OpenDaemon(t.Context(), Options{Home: stateDir(t), Listen: "127.0.0.1:0", NoMDNS: true, Log: logTo(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	planner := identity.ID{7}
	if _, err := d.trust.Trust(identity.Peer{ID: planner, Name: "planner"}); err != nil {
		t.Fatal(err)
	}
	taken := &delegation.Delegation{Direction: client.Taken, Peer: planner, ID: wire.NewMessageID(), Agent: "worker", Reports: true, Created: time.Now()}
	if _, _, err := d.delegations.AddDelegation(t.Context(), taken, "mend it"); err != nil {
		t.Fatal(err)
	}
	lost := kinds.EncodePayload(kinds.Errorf(kinds.Internal, "lost"))
	if _, err := d.delegations.EndDelegation(t.Context(), taken, delegation.Ending{State: client.TaskFailed, ID: wire.NewMessageID(), Outcome: "lost", Payload: lost}); err != nil {
		t.Fatal(err)
	}
	stopping, stop := context.WithCancel(t.Context())
	stop()
	if err := d.reportLostTask(stopping, taken); err == nil {
		t.Error("a report that was not sent counts as told")
	}
}
