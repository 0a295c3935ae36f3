package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// patientAgent is an agent that answers a query when it is told to.
type patientAgent struct {
	*program
	asked   chan *client.Inbound
	gone    chan wire.MessageID // queries of which nobody waits for the answer any more
	ended   chan error          // how its own queries have ended
	answers sync.Map            // by the id of the query: a channel
}

// patient attaches a patientAgent.
func (d *running) patient(name string) *patientAgent {
	a := &patientAgent{asked: make(chan *client.Inbound, 99), gone: make(chan wire.MessageID, 99), ended: make(chan error, 99)}
	a.program = d.agent(client.AttachParams{Name: name, MaxConcurrent: 64}, a.serve)
	return a
}

func (a *patientAgent) serve(ctx context.Context, r *jsonrpc.Request) {
	in := bind(a.t, r)
	a.asked <- in
	if in.Kind != kinds.KindQuery {
		r.Respond(wire.Payload(accepted))
		return
	}
	select {
	case <-a.answerTo(in.ID):
		r.Respond(wire.Payload(mainBranch))
	case <-ctx.Done():
		a.gone <- in.ID
	}
}

func (a *patientAgent) answerTo(id wire.MessageID) chan struct{} {
	answer, _ := a.answers.LoadOrStore(id, make(chan struct{}))
	return answer.(chan struct{})
}

// ask asks an agent of a peer, and returns what that was asked.
func (a *patientAgent) ask(of *patientAgent, to string, h client.Head, payload wire.Payload) *client.Inbound {
	a.t.Helper()
	go func() { a.ended <- a.call("query", client.QueryParams{Head: h, To: to, Payload: payload}, nil) }()
	return await.Receive(a.t, "the query", of.asked)
}

// delegate gives an agent of a peer a delegation, and returns what that was given.
func (a *patientAgent) delegate(of *patientAgent, to string, h client.Head) *client.Inbound {
	a.t.Helper()
	a.must("delegate", client.DelegateParams{Head: h, To: to, Payload: task1("")}, nil)
	return await.Receive(a.t, "the delegation", of.asked)
}

// listOpen returns what is open at a daemon.
func (d *running) listOpen() []client.TrafficEntry {
	d.t.Helper()
	return d.watcher().read(client.TrafficParams{Open: true}).Open
}

// A call that is open says which message it follows from, as its caller has named it, and the name of the chain, which
// is the same at all daemons. A call whose parent is over follows from none that is open, though one of the same
// agents, thread and hops is.
func TestCallsNameTheirParents(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	build := start(t, stateDir(t), "build")
	befriend(t, laptop, build)
	planner, reviewer, builder := desk.patient("planner"), laptop.patient("reviewer"), build.patient("builder")
	first := planner.ask(reviewer, "laptop", client.Head{Thread: "review"}, query("first?"))
	second := reviewer.ask(builder, "build", client.Head{Parent: first.ID}, query("second?"))
	given := reviewer.delegate(builder, "build", client.Head{Parent: first.ID, Guessed: true})

	chain := wire.Chain{Trace: first.Trace}.TraceID().String()
	var names []string
	for _, d := range []*running{desk, laptop, build} {
		for _, e := range d.listOpen() {
			names = append(names, e.Chain)
		}
	}
	if chain == "" || !slices.Equal(names, slices.Repeat([]string{chain}, 6)) {
		t.Errorf("the chain %q is %q", chain, names)
	}
	checkOpen := func(d *running, parents ...int) {
		t.Helper()
		open := d.listOpen()
		if got := client.FindOpenParents(open); !slices.Equal(got, parents) {
			t.Errorf("they follow from %d, want %d: %+v", got, parents, open)
		}
		for _, e := range open {
			if e.ID != first.ID && e.ID != second.ID && e.ID != given.ID {
				continue
			}
			follows := e.ID != first.ID
			if e.Guessed != (e.ID == given.ID) || follows && e.Parent != first.ID || (e.Hops > 0) != follows {
				t.Errorf("%+v", e)
			}
		}
	}
	checkOpen(laptop, -1, 0, 0)

	third := planner.ask(reviewer, "laptop", client.Head{Thread: "review"}, query("third?"))
	if third.Chain().TraceID().String() == chain {
		t.Error("another chain has the same name")
	}
	watched := laptop.watcher()
	reviewer.answerTo(first.ID) <- struct{}{}
	if err := await.Receive(t, "the answer", planner.ended); err != nil {
		t.Error(err)
	}
	checkOpen(laptop, -1, -1, -1) // second, given, third
	builder.answerTo(second.ID) <- struct{}{}
	if err := await.Receive(t, "the answer", reviewer.ended); err != nil {
		t.Error(err)
	}
	for sent := false; !sent; {
		for _, e := range watched.read(client.TrafficParams{WaitMS: 10_000}).Entries {
			if e.ID != second.ID {
				continue
			}
			if sent = true; e.Parent != first.ID || e.Guessed || e.Chain != chain {
				t.Errorf("what is kept: %+v", e)
			}
		}
	}
	reviewer.answerTo(third.ID) <- struct{}{}
	laptop.stop()
	checkOpen(start(t, laptop.dir, "laptop"), -1) // given
}

// trio is desk, whose planner asks lead at laptop, which asks builder at build.
type trio struct {
	desk, laptop, build    *running
	planner, lead, builder *patientAgent
}

func newTrio(t *testing.T) *trio {
	desk, laptop := pair(t)
	build := start(t, stateDir(t), "build")
	befriend(t, laptop, build)
	return &trio{desk, laptop, build, desk.patient("planner"), laptop.patient("lead"), build.patient("builder")}
}

// expectParentEnded checks how a call of the lead has ended whose parent has ended.
func (x *trio) expectParentEnded(err error) {
	x.lead.t.Helper()
	if e, ok := errors.AsType[*kinds.Error](err); !ok || e.Code != kinds.Cancelled || e.From != "" || !strings.Contains(e.Message, "the request that this follows from ended") {
		x.lead.t.Errorf("%v, want that its parent has ended", err)
	}
}

// A query ends when the query that it names as its parent ends without an answer: by its deadline, by a cancel, and with
// the asker's connection. It has no more time than its parent has left.
// holds: security.md#agents-on-this-machine
func TestQueriesEndWithTheirParent(t *testing.T) {
	t.Parallel()
	x := newTrio(t)
	follows := func(parent *client.Inbound) *client.Inbound {
		return x.lead.ask(x.builder, "build", client.Head{Parent: parent.ID}, wire.Payload(`{"question":"?","deadline_ms":240000}`))
	}
	expectEnd := func(child *client.Inbound) {
		t.Helper()
		x.expectParentEnded(await.Receive(t, "the end", x.lead.ended))
		if gone := await.Receive(t, "the builder stops", x.builder.gone); gone != child.ID {
			t.Errorf("%s has ended, want %s", gone, child.ID)
		}
	}
	brief := x.planner.ask(x.lead, "laptop", client.Head{}, wire.Payload(`{"question":"?","deadline_ms":5000}`))
	child := follows(brief)
	if child.DeadlineMS == 0 || child.DeadlineMS > 5000 {
		t.Errorf("the builder has %d ms: %s", child.DeadlineMS, child.Payload)
	}
	expectEnd(child)
	// From then on nothing begins that follows from it.
	x.expectParentEnded(x.lead.call("query", client.QueryParams{Head: client.Head{Parent: brief.ID}, To: "build", Payload: query("?")}, nil))
	if len(x.builder.asked) > 0 {
		t.Error("the builder was asked")
	}

	ctx, giveUp := context.WithCancel(t.Context())
	go x.planner.Call(ctx, "query", client.QueryParams{To: "laptop", Payload: query("?")}, nil)
	child = follows(await.Receive(t, "the query", x.lead.asked))
	giveUp()
	expectEnd(child)

	child = follows(x.planner.ask(x.lead, "laptop", client.Head{}, query("?")))
	x.desk.stop()
	expectEnd(child)
}

// Nothing begins that follows from a query whose deadline has passed, also while its agent still works on it.
func TestNothingFollowsFromAQueryThatIsOver(t *testing.T) {
	t.Parallel()
	x := newTrio(t)
	over := wire.NewEnvelope(x.desk.id, x.laptop.id, kinds.KindQuery, query("?"))
	x.laptop.known.BeginQuery(over, x.laptop.registry.FindByName("lead"), time.Now())
	x.expectParentEnded(x.lead.call("query", client.QueryParams{Head: client.Head{Parent: over.ID}, To: "build", Payload: query("?")}, nil))
	if len(x.builder.asked) > 0 {
		t.Error("the builder was asked")
	}
}

// A query goes on when its parent was answered, and if its parent was guessed, whatever becomes of that.
func TestQueriesOutliveTheirParent(t *testing.T) {
	t.Parallel()
	x := newTrio(t)
	parent := x.planner.ask(x.lead, "laptop", client.Head{}, query("?"))
	named := x.lead.ask(x.builder, "build", client.Head{Parent: parent.ID}, query("?"))
	x.lead.answerTo(parent.ID) <- struct{}{}
	if err := await.Receive(t, "the answer", x.planner.ended); err != nil {
		t.Fatal(err)
	}
	later := x.lead.ask(x.builder, "build", client.Head{Parent: parent.ID}, query("?"))
	if later.Hops != 1 || later.Trace != parent.Trace {
		t.Errorf("what follows from an answered query has %d hops", later.Hops)
	}

	ctx, giveUp := context.WithCancel(t.Context())
	go x.planner.Call(ctx, "query", client.QueryParams{To: "laptop", Payload: query("?")}, nil)
	parent = await.Receive(t, "the query", x.lead.asked)
	guessed := x.lead.ask(x.builder, "build", client.Head{Parent: parent.ID, Guessed: true}, wire.Payload(`{"question":"?","deadline_ms":240000}`))
	if guessed.DeadlineMS < 200_000 {
		t.Errorf("a guess bounds the deadline to %d ms", guessed.DeadlineMS)
	}
	giveUp()
	await.Receive(t, "the lead is told", x.lead.gone)
	for _, open := range []*client.Inbound{named, later, guessed} {
		x.builder.answerTo(open.ID) <- struct{}{}
		if err := await.Receive(t, "the answer", x.lead.ended); err != nil {
			t.Error(err)
		}
	}
}

// What follows from a delegation ends when that is cancelled, also what the peer has accepted, and what follows
// from that; but nothing that follows by a guess, and no notice.
// holds: security.md#agents-on-this-machine
func TestDelegationsEndWithTheirParent(t *testing.T) {
	t.Parallel()
	x := newTrio(t)
	parent := x.planner.delegate(x.lead, "laptop", client.Head{})
	child := x.lead.delegate(x.builder, "build", client.Head{Parent: parent.ID})
	grandchild := x.lead.delegate(x.builder, "build", client.Head{Parent: child.ID})
	guess := x.lead.delegate(x.builder, "build", client.Head{Parent: parent.ID, Guessed: true})
	asked := x.lead.ask(x.builder, "build", client.Head{Parent: parent.ID}, query("?"))
	notice := client.NotifyParams{Head: client.Head{Parent: parent.ID}, To: client.To("build"), Payload: wire.Payload(`{"topic":"t"}`)}
	x.planner.must("cancel", client.CancelParams{Ref: parent.ID}, nil)
	x.expectParentEnded(await.Receive(t, "the end", x.lead.ended))
	if gone := await.Receive(t, "the builder stops", x.builder.gone); gone != asked.ID {
		t.Errorf("%s has ended", gone)
	}
	cancelled := make(map[wire.MessageID]bool)
	for range 2 {
		in := await.Receive(t, "a cancel", x.builder.asked)
		if in.Kind != kinds.KindCancel || !strings.Contains(string(in.Payload), "the request that this follows from ended") {
			t.Fatalf("%+v", in)
		}
		cancelled[*in.Ref] = true
	}
	if !cancelled[child.ID] || !cancelled[grandchild.ID] {
		t.Errorf("%v are cancelled", cancelled)
	}
	ended := get[client.Task](x.lead, "wait", client.WaitParams{ID: child.ID})
	if ended.State != client.TaskCancelled || ended.Outcome != "the request that this follows from ended" {
		t.Errorf("%+v", ended)
	}
	again := client.DelegateParams{Head: client.Head{ID: child.ID, Parent: parent.ID}, To: "build", Payload: task1("")}
	var given client.DelegateAnswer
	if x.lead.must("delegate", again, &given); given.ID != child.ID || string(given.Payload) != accepted {
		t.Errorf("a repeat gets %+v", given)
	}
	if s := x.lead.state(guess.ID).State; s != client.TaskAccepted {
		t.Errorf("what follows from it by a guess is %s", s)
	}
	x.expectParentEnded(x.lead.call("delegate", client.DelegateParams{Head: client.Head{Parent: parent.ID}, To: "build", Payload: task1("")}, nil))
	x.expectParentEnded(x.lead.call("query", client.QueryParams{Head: client.Head{Parent: parent.ID}, To: "build", Payload: query("?")}, nil))
	x.lead.must("notify", notice, nil)
}

// A question back ends when the query that it names as its parent does.
func TestQuestionsBackEndWithTheirParent(t *testing.T) {
	t.Parallel()
	x := newTrio(t)
	work := x.lead.delegate(x.builder, "build", client.Head{})
	ctx, giveUp := context.WithCancel(t.Context())
	go x.lead.Call(ctx, "query", client.QueryParams{To: "build", Payload: query("?")}, nil)
	parent := await.Receive(t, "the query", x.builder.asked)
	go func() {
		x.builder.ended <- x.builder.call("query", client.QueryParams{Head: client.Head{Parent: parent.ID}, Ref: work.ID, Payload: query("?")}, nil)
	}()
	await.Receive(t, "the question", x.lead.asked)
	giveUp()
	err := await.Receive(t, "the end", x.builder.ended)
	x.expectParentEnded(err)
	if e := kinds.AsError(err); e.Reason() != kinds.ReasonParentEnded || e.Delivered() != kinds.DeliveredUnknown {
		t.Errorf("%s, %s", e.Reason(), e.Delivered())
	}
}

// A delegation whose parent is cancelled before its ack ends as well.
func TestUnacknowledgedDelegationsEndWithTheirParent(t *testing.T) {
	t.Parallel()
	x := newTrio(t)
	parent := x.planner.delegate(x.lead, "laptop", client.Head{})
	slow := make(chan *client.Inbound, 1)
	x.build.agent(client.AttachParams{Name: "slow"}, func(ctx context.Context, r *jsonrpc.Request) { slow <- bind(t, r); <-ctx.Done() })
	go func() {
		x.lead.ended <- x.lead.call("delegate", client.DelegateParams{Head: client.Head{Parent: parent.ID}, To: "build/slow", Payload: task1("")}, nil)
	}()
	child := await.Receive(t, "the delegation", slow)
	x.planner.must("cancel", client.CancelParams{Ref: parent.ID}, nil)
	x.expectParentEnded(await.Receive(t, "the end", x.lead.ended))
	await.Until(t, "it is cancelled on both sides", func() bool {
		return x.lead.state(child.ID).State == client.TaskCancelled && x.build.dial().state(child.ID).State == client.TaskCancelled
	})
}

// An agent names as parent what it was handed, or gave. What is another one's is not known to it. The owner names
// all that is known.
// holds: security.md#agents-on-this-machine
func TestAgentsNameWhatTheyHave(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	asker := desk.patient("planner")
	one := &patientAgent{asked: make(chan *client.Inbound, 9), gone: make(chan wire.MessageID, 9), ended: make(chan error, 9)}
	one.program, _ = laptop.guestAgent(client.AttachParams{Name: "one"}, one.serve)
	other, _ := laptop.guestAgent(client.AttachParams{Name: "other", Kinds: []string{"query"}}, say(mainBranch))
	nobody, owner := laptop.guest(nil), laptop.dial()
	check := func(what string, id wire.MessageID) {
		t.Helper()
		n := client.NotifyParams{Head: client.Head{Parent: id}, To: client.To("desk"), Payload: wire.Payload(`{"topic":"t"}`)}
		for _, caller := range []*program{one.program, owner} {
			if err := caller.call("notify", n, nil); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, caller := range []*program{other, nobody} {
			if e := caller.refused(kinds.NotFound, "notify", n); e.Reason() != kinds.ReasonParentUnknown {
				t.Errorf("%s: %v", what, e)
			}
		}
	}
	asked := asker.ask(one, "laptop/one", client.Head{}, query("?"))
	check("an open query", asked.ID)
	one.answerTo(asked.ID) <- struct{}{}
	await.Receive(t, "the answer", asker.ended)
	check("an answered query", asked.ID)
	taken := asker.delegate(one, "laptop/one", client.Head{})
	check("a delegation", taken.ID)
	given := client.DelegateParams{Head: client.Head{ID: wire.NewMessageID()}, To: "desk", Payload: task1("")}
	one.must("delegate", given, nil)
	check("a delegation that it gave", given.ID)
	handed := asker.notify(client.NotifyParams{To: client.To("laptop/one"), Payload: wire.Payload(`{"topic":"t"}`)})
	await.Receive(t, "the notice", one.asked)
	check("a notice", handed.ID)
	held := wire.NewEnvelope(desk.ID(), laptop.ID(), kinds.KindNotify, wire.Payload(`{"topic":"t"}`))
	if err := laptop.inbox.AddMessage(t.Context(), held, "one", ""); err != nil {
		t.Fatal(err)
	}
	check("a message in its inbox", held.ID)
}
