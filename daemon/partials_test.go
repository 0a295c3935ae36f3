package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

func partial(outcome, more string) wire.Payload {
	return wire.Payload(`{"status":"partial","outcome":"` + outcome + `"` + more + `}`)
}

// The task shows how far its agent has come, on both sides, also after a restart, until there
// is a result.
func TestProgressIsShown(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	asker := desk.dial()
	given := delegateTo(asker, "laptop", task1(""))
	report := func(p wire.Payload) (r client.Receipt) {
		t.Helper()
		worker.must("result", client.ResultParams{Ref: given.ID, Payload: p}, &r)
		return r
	}
	want := func(when string, progress float64, message string) {
		t.Helper()
		for name, l := range map[string]*program{"desk": asker, "laptop": worker} {
			var all client.Tasks
			l.must("tasks", nil, &all)
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

	// What nobody took is with the task and not in the inbox.
	var in client.Inbox
	asker.must("inbox", nil, &in)
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
}

// However fast an agent reports, its daemon lets four a second out. The newest wins, and the last
// one before the end arrives before the end.
func TestPartialResultsAreCoalesced(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	got := make(chan *client.Inbound, 1000)
	planner := desk.agent(client.AttachParams{Name: "planner"}, into(t, got, `{}`))
	given := delegateTo(planner, "laptop", task1(""))
	begun := time.Now()
	type reported struct {
		text  string
		state client.ReceiptState
	}
	all, count := make(chan reported, 50), make(map[client.ReceiptState]int)
	report := func(text string) {
		go func() {
			var r client.Receipt
			worker.must("result", client.ResultParams{Ref: given.ID, Payload: partial(text, "")}, &r)
			all <- reported{text, r.State}
		}()
	}
	next := func() reported {
		t.Helper()
		r := await.Receive(t, "a receipt", all)
		count[r.state]++
		return r
	}
	for i := range 50 {
		report(fmt.Sprint(i))
		time.Sleep(10 * time.Millisecond) // the pace of the reports
	}
	for range 50 {
		next()
	}
	last := ""
	for last == "" {
		other := map[string]string{"one": "another", "another": "one"}
		for text := range other {
			report(text)
		}
		if first := next(); first.state == client.Replaced {
			last = other[first.text] // which has come, and is with the peer or waits
		} else {
			next()
		}
	}
	worker.must("result", client.ResultParams{Ref: given.ID, Payload: completed("done")}, nil)
	if r := next(); r.state != client.Handed {
		t.Errorf("the last one before the end: %+v", r)
	}
	most := 2 + int(time.Since(begun)/(time.Second/4)) // the first, and the last, for which the end waits
	if count[client.Handed] > most {
		t.Errorf("%v, want at most %d handed", count, most)
	}
	var arrived *kinds.Result
	for range count[client.Handed] {
		arrived = parse[kinds.Result](t, await.Receive(t, "partial result", got).Payload)
	}
	if end := await.Receive(t, "the end", got); arrived.Outcome != last || parse[kinds.Result](t, end.Payload).Status != "completed" {
		t.Errorf("the last one before the end is %s, want %s, and then %s", arrived.Outcome, last, end.Payload)
	}
	worker.refused(kinds.TooLarge, "result", client.ResultParams{Ref: delegateTo(planner, "laptop", task1("")).ID, Payload: partial(long(kinds.MaxPartial), "")})
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
	var b client.Budget
	asker.must("budget", nil, &b)
	told := false
	for _, u := range b.Usage {
		told = told || u.Row == "partials" && u.Refused == 2
	}
	if !told {
		t.Errorf("the budget does not tell of two refusals: %+v", b.Usage)
	}
	// The end is no partial result.
	worker.must("result", client.ResultParams{Ref: given.ID, Payload: completed("done")}, nil)
	if _, err := laptop.report(desk, given.ID, "result", partial("late", "")); !errors.Is(err, &kinds.Error{Code: kinds.NotFound}) && !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
		t.Errorf("after the end: %v", err)
	}
	if s := asker.state(given.ID); s.State != client.TaskCompleted {
		t.Errorf("%+v", s)
	}
}

// A delegation says when it began and, at the peer that has taken it, which agent has worked on it, also when it is
// final and after a restart.
func TestATaskKeepsItsBeginAndItsAgent(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	before := time.Now().Truncate(time.Millisecond)
	given := delegateTo(desk.dial(), "laptop", task1(""))
	worker.must("result", client.ResultParams{Ref: given.ID, Payload: completed("done")}, nil)
	began := map[string]time.Time{}
	check := func(when string) {
		t.Helper()
		for d, agent := range map[*running]string{desk: "", laptop: "reviewer"} {
			s := d.dial().state(given.ID)
			if s.State != client.TaskCompleted || s.Agent != agent || s.Began.Before(before) || s.Began.After(time.Now()) {
				t.Errorf("%s: %+v", when, s)
			}
			if was := began[agent]; !was.IsZero() && !s.Began.Equal(was) {
				t.Errorf("%s it began at %s, and before that at %s", when, s.Began, was)
			}
			began[agent] = s.Began.Time
		}
	}
	check("when it is final")
	laptop.stop()
	laptop = start(t, laptop.dir, "laptop")
	check("after a restart")
}
