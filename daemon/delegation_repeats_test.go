package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
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
		given := get[client.DelegateAnswer](desk.dial(), "delegate", p)
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
	failed := later(desk.dial(), "delegate", p)
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
	given := get[client.DelegateAnswer](desk.dial(), "delegate", p)
	if string(given.Payload) != accepted || runs.Load() != 1 {
		t.Errorf("%s after %d runs", given.Payload, runs.Load())
	}
}

func partial(outcome, more string) wire.Payload {
	return wire.Payload(`{"status":"partial","outcome":"` + outcome + `"` + more + `}`)
}

// The task shows how far its agent has come, on both sides, also after a restart, until there
// is a result.
func TestProgressIsShown(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	asker, before := desk.dial(), time.Now().Truncate(time.Millisecond)
	given := delegateTo(asker, "laptop", task1(""))
	report := func(p wire.Payload) (r client.Receipt) {
		t.Helper()
		worker.must("result", client.ResultParams{Ref: given.ID, Payload: p}, &r)
		return r
	}
	want := func(when string, progress float64, message string) {
		t.Helper()
		for name, l := range map[string]*program{"desk": asker, "laptop": worker} {
			all := get[client.Tasks](l, "tasks", nil)
			for how, s := range map[string]*client.Task{"task": l.state(given.ID), "tasks": &all.Tasks[0]} {
				if s.Progress == nil || *s.Progress != progress || s.Message != message {
					t.Errorf("%s, %s of %s: %+v", when, how, name, s)
				}
			}
		}
	}
	if r := report(partial("", `,"progress":0.25,"message":"running the tests"`)); r.State != client.Held {
		t.Errorf("%+v", r)
	}
	want("the first", 0.25, "running the tests")
	report(partial("half", `,"progress":5e-1`))
	want("without a message", 0.5, "running the tests")
	report(partial("more", `,"message":"cleaning up"`))
	want("without progress", 0.5, "cleaning up")
	worker.refused(kinds.Invalid, "result", client.ResultParams{Ref: given.ID, Payload: partial("", `,"progress":2`)})
	worker.refused(kinds.TooLarge, "result", client.ResultParams{Ref: given.ID, Payload: partial(long(kinds.MaxPartial), "")})

	// What nobody took is with the task and not in the inbox.
	in := get[client.Inbox](asker, "inbox", nil)
	if len(in.Messages) != 0 {
		t.Errorf("%+v", in)
	}
	desk.stop()
	desk = start(t, desk.dir, "desk")
	desk.knows(laptop)
	laptop.knows(desk)
	asker = desk.dial()
	want("after a restart", 0.5, "cleaning up")
	if s := asker.state(given.ID); s.Partials != 3 || string(s.Partial) != string(partial("more", `,"message":"cleaning up"`)) {
		t.Errorf("%+v", s)
	}
	report(completed("done"))
	if s := asker.state(given.ID); s.Progress != nil || s.Message != "" || s.Partial != nil || s.State != client.TaskCompleted {
		t.Errorf("%+v", s)
	}
	laptop.stop()
	laptop = start(t, laptop.dir, "laptop")
	if s := laptop.dial().state(given.ID); s.State != client.TaskCompleted || s.Agent != "reviewer" || s.Began.Before(before) || s.Began.After(time.Now()) {
		t.Errorf("after a restart of who has worked: %+v", s)
	}
}

// report sends a report as a trusted peer can that is not this program.
func (d *running) report(to *running, ref wire.MessageID, kind string, payload wire.Payload) (peer.Outcome, error) {
	env := wire.NewEnvelope(d.id, to.id, kind, payload)
	env.Ref = &ref
	return d.send(env)
}

// send sends an envelope and returns what its receipt says.
func (d *running) send(env *wire.Envelope) (peer.Outcome, error) {
	checked, err := kinds.CheckEnvelope(env)
	if err != nil {
		return "", err
	}
	return d.node.Send(d.t.Context(), checked, true)
}

// A trusted peer that reports as fast as it likes, and as much, is held to eight a second of each
// delegation and 64 KiB, and wakes, stores and displaces nothing by it.
// holds: security.md#the-budget
func TestPartialResultsOfAHostilePeer(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	asker := desk.dial()
	given, other := delegateTo(asker, "laptop", task1("")), delegateTo(asker, "laptop", task1(""))
	task := desk.delegations.Find(client.Given, laptop.ID(), given.ID)
	var err error
	for err == nil { // a report that is slow on its way is allowed
		for taken := true; taken; {
			_, taken = desk.delegations.TakePartial(task)
		}
		_, err = laptop.report(desk, given.ID, "result", partial("", ""))
	}
	if e := kinds.AsError(err); e.Code != kinds.Overloaded || e.RetryAfterMS == 0 || e.RetryAfterMS > 1000 || !strings.Contains(e.Message, "budget: partials") {
		t.Fatal(err)
	}
	if _, err := laptop.report(desk, other.ID, "result", partial("", "")); err != nil {
		t.Errorf("another delegation has a pace of its own: %v", err)
	}
	if _, err := laptop.report(desk, other.ID, "result", partial(long(kinds.MaxPartial), "")); !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
		t.Errorf("over 64 KiB: %v", err)
	}
	if n := desk.held(); n != 0 {
		t.Errorf("%d messages are held", n)
	}
	b := get[client.Budget](asker, "budget", nil)
	if !slices.ContainsFunc(b.Usage, func(u client.BudgetUsage) bool { return u.Row == "partials" && u.Refused == 2 }) {
		t.Errorf("the budget does not tell of two refusals: %+v", b.Usage)
	}
	// The end is no partial result.
	worker.must("result", client.ResultParams{Ref: given.ID, Payload: completed("done")}, nil)
	if s := asker.state(given.ID); s.State != client.TaskCompleted {
		t.Errorf("%+v", s)
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
		all := get[client.Tasks](d.dial(), "tasks", nil)
		if len(all.Tasks) != 1 || all.Tasks[0].ID != given.ID || all.Tasks[0].State != client.TaskAccepted || all.Tasks[0].Task != "mend it" {
			t.Errorf("%+v", all)
		}
	}
	if _, active, _ := laptop.registry.SummarizeLoad(); active != 1 {
		t.Errorf("%d tasks are active", active)
	}
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, nil)
	worker.must("result", client.ResultParams{Ref: given.ID, Payload: completed("mended")}, nil)
	s := get[client.Task](desk.dial(), "wait", client.WaitParams{ID: given.ID})
	if s.State != client.TaskCompleted || s.Outcome != "mended" {
		t.Errorf("%+v", s)
	}
}
