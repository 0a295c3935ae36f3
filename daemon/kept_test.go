package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/metrics"
	"github.com/acpd/acpd/wire"
)

const hour = uint64(time.Hour / time.Millisecond)

func keptQuery(to string) client.QueryParams {
	return client.QueryParams{Head: client.Head{ID: wire.NewMessageID()}, To: to, Payload: query("?"), KeepMS: hour}
}

func keptNotify(to string) client.NotifyParams {
	return client.NotifyParams{Head: client.Head{ID: wire.NewMessageID()}, To: client.To(to), Payload: wire.Payload(`{"topic":"t"}`), KeepMS: hour}
}

func keptTask(to string) client.DelegateParams {
	return client.DelegateParams{Head: client.Head{ID: wire.NewMessageID()}, To: to, Payload: task1(""), KeepMS: hour}
}

// kept makes a call whose message must be kept, and returns its id.
func (l *program) kept(method string, params any) wire.MessageID {
	l.t.Helper()
	e := l.refused(kinds.Kept, method, params, "acpctl wait", "acpctl cancel")
	k := client.FindKept(e)
	if k == nil || k.LastError == "" || e.Delivered() != kinds.DeliveredNo || e.Retryable || time.Until(k.Until.Time) > time.Hour || time.Until(k.Until.Time) < 50*time.Minute {
		l.t.Fatalf("%s: %v: %s", method, e, e.Details)
	}
	return k.ID
}

// ends waits for the end of a message that was kept.
func (l *program) ends(id wire.MessageID, want client.TaskState) *client.Task {
	l.t.Helper()
	task := get[client.Task](l, "wait", client.WaitParams{ID: id})
	if task.State != want || !task.Over || task.Kept != nil || task.Direction != client.Given {
		l.t.Fatalf("%s is %+v, want %s", id, task, want)
	}
	return &task
}

// stays waits until a message that is kept was tried more often, and fails the test unless it is kept then.
func (l *program) stays(id wire.MessageID) *client.Task {
	l.t.Helper()
	before := l.state(id)
	now := before
	await.Until(l.t, "it is tried", func() bool {
		now = l.state(id)
		return now.Kept == nil || now.Kept.Tries > before.Kept.Tries
	})
	if now.State != client.TaskKept || now.Over {
		l.t.Fatalf("%+v", now)
	}
	return now
}

// awayPair is a pair of which laptop does not run, and planner, which is attached to desk, and what planner is told.
func awayPair(t *testing.T) (desk, laptop *running, planner *program, told chan *client.Inbound) {
	t.Helper()
	desk, laptop = pair(t)
	told = make(chan *client.Inbound, 64)
	planner, _ = desk.guestAgent(client.AttachParams{Name: "planner"}, into(t, told, `{}`))
	laptop.stop()
	return desk, laptop, planner, told
}

// comes starts a daemon again.
func (d *running) comes() *running {
	d.t.Helper()
	return start(d.t, d.dir, d.name)
}

// isToldOnce fails the test unless an agent was told of each of the ends, once, and of nothing else.
func isToldOnce(t *testing.T, told <-chan *client.Inbound, from *running, kind string, refs ...wire.MessageID) (all []*client.Inbound) {
	t.Helper()
	var got []wire.MessageID
	for range refs {
		in := await.Receive(t, "the end", told)
		if in.Kind != kind || in.From != from.ID() || in.Ref == nil || in.Delegation == nil || in.Delegation.ID != *in.Ref || !in.Delegation.Over {
			t.Fatalf("the agent is told %+v: %s", in, in.Payload)
		}
		got, all = append(got, *in.Ref), append(all, in)
	}
	for _, ref := range refs {
		if !slices.Contains(got, ref) {
			t.Errorf("the end of %s is not told", ref)
		}
	}
	if len(told) > 0 {
		t.Errorf("it is told %+v too", <-told)
	}
	return all
}

// TestWhatIsKeptArrives: when the peer comes, each message arrives once, and those for one recipient in their order.
func TestWhatIsKeptArrives(t *testing.T) {
	t.Parallel()
	desk, laptop, planner, told := awayPair(t)
	asked := planner.kept("query", keptQuery("laptop/reviewer"))
	noted := planner.kept("notify", keptNotify("laptop/reviewer"))
	given := planner.kept("delegate", keptTask("laptop/reviewer"))
	again := planner.kept("query", keptQuery("laptop/reviewer"))
	any := planner.kept("query", keptQuery("laptop"))
	held := planner.kept("notify", keptNotify("laptop/absent"))
	owner := desk.dial()
	byOwner := owner.kept("notify", keptNotify("laptop/reviewer"))
	all := get[client.Tasks](owner, "tasks", nil).Tasks
	if len(all) != 7 || all[0].ID != byOwner || all[6].ID != asked || all[6].Kind != kinds.KindQuery || all[6].Peer != "laptop" || all[6].ToAgent != "reviewer" || all[6].Task != "?" || all[6].State != client.TaskKept || all[6].Over || all[6].Kept == nil {
		t.Errorf("%+v", all)
	}
	if text := string(metrics.AppendFamilies(nil, desk.kept.ListFamilies())); !strings.Contains(text, "\nacpd_kept 7\n") {
		t.Error(text)
	}

	laptop = laptop.comes()
	got := make(chan *client.Inbound, 64)
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		in := bind(t, r)
		got <- in
		switch in.Kind {
		case kinds.KindQuery:
			r.Respond(wire.Payload(`{"summary":"42","data":{"n":1}}`))
		case kinds.KindDelegate:
			r.Respond(wire.Payload(accepted))
		default:
			r.Respond(nil)
		}
	})
	desk.knows(laptop)
	for _, id := range []wire.MessageID{asked, again, any} {
		task := planner.ends(id, client.TaskCompleted)
		if r := parse[kinds.Result](t, task.Result); r.Status != "completed" || r.Outcome != "42" || string(r.Data) != `{"n":1}` || task.Outcome != "42" {
			t.Errorf("%+v: %s", task, task.Result)
		}
	}
	planner.ends(noted, client.TaskHanded)
	planner.ends(held, client.TaskHeld)
	owner.ends(byOwner, client.TaskHanded)
	var order []wire.MessageID
	for range 6 {
		in := await.Receive(t, "a message", got)
		if in.ID != any {
			order = append(order, in.ID)
		}
		if byWhom := map[bool]string{false: "planner"}[in.ID == byOwner]; in.FromAgent != byWhom || in.Name != "desk" {
			t.Errorf("%s is from %s/%s", in.ID, in.Name, in.FromAgent)
		}
		if in.Kind == kinds.KindQuery && in.DeadlineMS != uint64(kinds.MaxQueryDeadline.Milliseconds()) {
			t.Errorf("the query has %d ms", in.DeadlineMS)
		}
	}
	if want := []wire.MessageID{asked, noted, given, again, byOwner}; !slices.Equal(order, want) {
		t.Errorf("they came as %v, want %v", order, want)
	}

	// The sender is told: of answers by the peer, of the rest by its own daemon.
	var answers, rest []*client.Inbound
	for range 5 {
		if in := await.Receive(t, "the end", told); in.From == laptop.ID() {
			answers = append(answers, in)
		} else {
			rest = append(rest, in)
		}
	}
	for _, in := range answers {
		if r := parse[kinds.Result](t, in.Payload); in.Kind != kinds.KindResult || in.FromAgent != "reviewer" || r.Outcome != "42" || in.Ref == nil || !slices.Contains([]wire.MessageID{asked, again, any}, *in.Ref) {
			t.Errorf("%+v: %s", in, in.Payload)
		}
	}
	if len(answers) != 3 || len(rest) != 2 {
		t.Errorf("%d answers, %d other ends", len(answers), len(rest))
	}
	for _, in := range rest {
		if in.From != desk.ID() || in.Kind != kinds.KindResult || in.Ref == nil || in.Delegation == nil || in.Delegation.ID != *in.Ref || !slices.Contains([]wire.MessageID{noted, held}, *in.Ref) {
			t.Errorf("%+v: %s", in, in.Payload)
		}
	}

	// The delegation is an ordinary one, and its result comes as ever.
	if task := planner.state(given); task.State != client.TaskAccepted || task.Kind != "" || task.Kept != nil {
		t.Errorf("%+v", task)
	}
	worker.must("result", client.ResultParams{Ref: given, Payload: completed("mended")}, nil)
	if in := await.Receive(t, "the result", told); in.From != laptop.ID() || *in.Ref != given || parse[kinds.Result](t, in.Payload).Outcome != "mended" {
		t.Errorf("%+v", in)
	}
	if len(got) > 0 || len(told) > 0 {
		t.Errorf("%d messages and %d ends more", len(got), len(told))
	}
	if n := desk.rows("daemon_kept"); n != 6 {
		t.Errorf("%d rows", n)
	}
	if text := string(metrics.AppendFamilies(nil, desk.kept.ListFamilies())); !strings.Contains(text, "\nacpd_kept 0\n") {
		t.Error(text)
	}
}

// TestAnAnswerIsInTheInbox: the sender that is not there finds the answer in its inbox, and acknowledges it by the id
// that it was told.
func TestAnAnswerIsInTheInbox(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.stop()
	planner, key := desk.guestAgent(client.AttachParams{Name: "planner", Kinds: []string{"notify"}}, say(`{}`))
	id := planner.kept("query", keptQuery("laptop"))
	planner.Close()
	desk.awaitLeft("planner")
	laptop = laptop.comes()
	laptop.agent(client.AttachParams{Name: "reviewer"}, say(`{"summary":"42"}`))
	desk.knows(laptop)
	desk.dial().ends(id, client.TaskCompleted)
	again, _ := desk.guestAgent(client.AttachParams{Name: "planner", Key: key, Kinds: []string{"notify"}}, say(`{}`))
	var all []client.HeldMessage
	await.Until(t, "the answer is in the inbox", func() bool {
		all = get[client.Inbox](again, "inbox", client.InboxParams{}).Messages
		return len(all) > 0
	})
	if len(all) != 1 || all[0].Envelope.Kind != kinds.KindResult || *all[0].Envelope.Ref != id || all[0].Envelope.From != laptop.ID() || all[0].Envelope.FromAgent != "reviewer" {
		t.Errorf("%+v", all)
	}
	for _, want := range []int{1, 0} {
		if acked := get[client.Acked](again, "ack", client.AckParams{Ref: id}); acked.Removed != want {
			t.Errorf("%+v", acked)
		}
	}
}

// TestAnAgentThatComesIsSentWhatIsKept: at once, and nothing that is for another agent.
func TestAnAgentThatComesIsSentWhatIsKept(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	asker := desk.dial()
	asked, given := asker.kept("query", keptQuery("laptop/reviewer")), asker.kept("delegate", keptTask("laptop/reviewer"))
	if n := len(get[client.Tasks](asker, "tasks", nil).Tasks); n != 2 {
		t.Errorf("%d tasks", n)
	}
	laptop.agent(client.AttachParams{Name: "tester"}, func(_ context.Context, r *jsonrpc.Request) {
		t.Errorf("tester gets a %s", r.Method)
		r.Respond(nil)
	})
	desk.kept.TryNow(laptop.ID())
	asker.stays(asked)
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		answer := `{"summary":"42"}`
		if bind(t, r).Kind == kinds.KindDelegate {
			answer = accepted
		}
		r.Respond(wire.Payload(answer))
	})
	asker.ends(asked, client.TaskCompleted)
	await.Until(t, "the delegation is accepted", func() bool { return asker.state(given).State == client.TaskAccepted })
}

// TestWhatAnAgentSaysIsNotKept: such a message has arrived, whatever the agent says.
func TestWhatAnAgentSaysIsNotKept(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	for _, code := range []kinds.Code{kinds.NoAgent, kinds.Overloaded, kinds.Timeout} {
		runs := make(chan string, 8)
		agent := laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
			runs <- r.Method
			r.RespondError(kinds.Errorf(code, "says the agent").WithDelivered(kinds.DeliveredNo))
		})
		asker := desk.dial()
		asker.refused(code, "query", keptQuery("laptop"))
		asker.refused(code, "delegate", keptTask("laptop"))
		agent.Close()
		laptop.awaitLeft("reviewer")
		if len(runs) != 2 || desk.rows("daemon_kept") != 0 {
			t.Errorf("%s: it has run %d times, %d rows", code, len(runs), desk.rows("daemon_kept"))
		}
	}
}

// TestAQueryThatASessionDidNotSee stays kept, and is sent again.
func TestAQueryThatASessionDidNotSee(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	runs := make(chan wire.MessageID, 8)
	laptop.guestAgent(client.AttachParams{Name: "claude", Session: claude}, func(_ context.Context, r *jsonrpc.Request) {
		in := bind(t, r)
		if runs <- in.ID; len(runs) > 1 {
			r.Respond(wire.Payload(`{"summary":"42"}`))
			return
		}
		r.RespondError(kinds.Errorf(kinds.Timeout, "unseen").WithDelivered(kinds.DeliveredNo))
	})
	asker := desk.dial()
	id := asker.kept("query", keptQuery("laptop/claude"))
	desk.kept.TryNow(laptop.ID())
	asker.ends(id, client.TaskCompleted)
	if first, second := <-runs, <-runs; first != id || second != id || len(runs) != 0 {
		t.Errorf("%s and %s ran, and %d more", first, second, len(runs))
	}
}

// TestOrderOfWhatIsKept: a later message that is to be kept goes behind those of its kind; another one does not.
func TestOrderOfWhatIsKept(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	asker := desk.dial()
	first, second := asker.kept("query", keptQuery("laptop/reviewer")), asker.kept("query", keptQuery("laptop/reviewer"))
	if task := asker.state(second); task.Kept.LastError == asker.state(first).Kept.LastError && task.Kept.Tries == 0 {
		t.Errorf("%+v", task.Kept)
	}
	plain := keptQuery("laptop/reviewer")
	plain.KeepMS = 0
	asker.refused(kinds.NoAgent, "query", plain)
	if r := asker.notify(keptNotify("laptop/reviewer")); r.State != client.Held {
		t.Errorf("a notification: %+v", r)
	}
	asker.kept("query", keptQuery("laptop/tester"))
	came := make(chan *client.Inbound, 8)
	laptop.agent(client.AttachParams{Name: "reviewer"}, into(t, came, `{"summary":"42"}`))
	for _, id := range []wire.MessageID{first, second} {
		asker.ends(id, client.TaskCompleted)
		if in := await.Receive(t, "a query", came); in.ID != id {
			t.Errorf("%s comes, want %s", in.ID, id)
		}
	}
}

// TestRepeatsOfWhatIsKept: a call under the id of a message that is kept is told that it is kept.
func TestRepeatsOfWhatIsKept(t *testing.T) {
	t.Parallel()
	desk, laptop, planner, _ := awayPair(t)
	for method, p := range map[string]any{"query": keptQuery("laptop"), "notify": keptNotify("laptop"), "delegate": keptTask("laptop")} {
		id := planner.kept(method, p)
		if again := planner.kept(method, p); again != id {
			t.Errorf("%s: %s is kept too", method, again)
		}
		other := client.QueryParams{Head: client.Head{ID: id}, To: "laptop", Payload: query("another?")}
		planner.refused(kinds.Invalid, "query", other)
	}
	if n := desk.rows("daemon_kept"); n != 3 {
		t.Errorf("%d rows", n)
	}
	laptop = laptop.comes()
	got := make(chan *client.Inbound, 8)
	laptop.agent(client.AttachParams{Name: "reviewer"}, into(t, got, `{"summary":"","accepted":true}`))
	desk.knows(laptop)
	var all []string
	for range 3 {
		all = append(all, await.Receive(t, "a message", got).Kind)
	}
	await.Until(t, "all have ended", func() bool {
		return !slices.ContainsFunc(desk.kept.List(nil), func(task client.Task) bool { return task.State == client.TaskKept })
	})
	if slices.Sort(all); len(got) != 0 || !slices.Equal(all, []string{"delegate", "notify", "query"}) {
		t.Errorf("%v came, and %d more", all, len(got))
	}
}

// TestKeepParams: what cannot be kept is refused before anything is sent.
func TestKeepParams(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		t.Errorf("a %s is sent", r.Method)
		r.RespondError(errors.New("no"))
	})
	asker := desk.dial()
	long, no := uint64(client.MaxKeep.Milliseconds())+1, false
	ask, note, task := keptQuery("laptop"), keptNotify("laptop"), keptTask("laptop")
	ask.KeepMS, note.KeepMS, task.KeepMS = long, long, long
	for method, p := range map[string]any{"query": ask, "notify": note, "delegate": task} {
		asker.refused(kinds.Invalid, method, p, "keep_ms", "168h")
	}
	about := keptQuery("laptop")
	about.Ref = wire.NewMessageID()
	asker.refused(kinds.Invalid, "query", about, "keep_ms")
	unsure := keptNotify("laptop")
	unsure.Wait = &no
	asker.refused(kinds.Invalid, "notify", unsure, "keep_ms")
}
