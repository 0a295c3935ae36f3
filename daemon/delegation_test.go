package daemon

import (
	"context"
	"errors"
	"fmt"
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

func delegateTo(l *program, to string, payload wire.Payload) *client.DelegateAnswer {
	l.t.Helper()
	out := new(client.DelegateAnswer)
	l.must("delegate", client.DelegateParams{To: to, Payload: payload}, out)
	return out
}

func (l *program) state(id wire.MessageID) *client.Task {
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
	for _, l := range []*program{planner, worker} {
		if s := l.state(given.ID); s.State != client.TaskAccepted || s.Task != "mend it" || time.Until(s.Deadline.Time) > time.Minute || time.Until(s.Deadline.Time) < 30*time.Second {
			t.Errorf("%+v", s)
		}
	}

	awaitsWork := func(d *running, of identity.ID) bool { return d.newNodeConfig(d.config.Start(), "").AwaitsWork(of) }
	if !awaitsWork(desk, laptop.ID()) || !awaitsWork(laptop, desk.ID()) || awaitsWork(desk, identity.ID{1}) {
		t.Error("the nodes do not know which work is open: a pipe would end before the result")
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
	if awaitsWork(desk, laptop.ID()) || awaitsWork(laptop, desk.ID()) {
		t.Error("the nodes wait for work that is over")
	}
	// The first end wins, on both sides.
	worker.refused(kinds.NotFound, "result", client.ResultParams{Ref: given.ID, Payload: final})
	c := get[client.CancelAnswer](planner, "cancel", client.CancelParams{Ref: given.ID})
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
	in := get[client.Inbox](asker, "inbox", client.InboxParams{Kinds: []string{"result"}, Peers: []string{"laptop"}})
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
	if _, active, _ := laptop.registry.SummarizeLoad(); active != 0 {
		t.Errorf("%d tasks are active", active)
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
	var brief client.DelegateAnswer
	for ms := 100; ; ms *= 4 { // until a busy machine accepts it before its deadline
		err := asker.call("delegate", client.DelegateParams{To: "laptop", Payload: task1(fmt.Sprintf(`,"deadline_ms":%d`, ms))}, &brief)
		if err == nil {
			break
		}
		if !errors.Is(err, &kinds.Error{Code: kinds.Timeout}) || ms > int(await.Patience.Milliseconds()) {
			t.Fatal(err)
		}
	}
	s := get[client.Task](asker, "wait", client.WaitParams{ID: brief.ID})
	if s.State != client.TaskExpired || !s.Over {
		t.Errorf("%+v", s)
	}
	silent := delegateTo(asker, "laptop", task1(`,"report_back":false`))
	asker.must("wait", client.WaitParams{ID: silent.ID}, &s)
	if s.State != client.TaskAccepted || !s.Over {
		t.Errorf("%+v", s)
	}
	// It is the daemon that ends, and not the caller.
	waiting := later(asker, "wait", client.WaitParams{ID: given.ID})
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
	if err := d.tasks.ReportEnd(stopping, taken); err == nil {
		t.Error("a report that was not sent counts as told")
	}
}
