package daemon

import (
	"context"
	"slices"
	"sync"
	"testing"

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
			if e.ID == second.ID && (e.Parent != first.ID || e.Guessed) || e.ID == given.ID && (e.Parent != first.ID || !e.Guessed) {
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
