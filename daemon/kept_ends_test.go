package daemon

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// isToldBySelf fails the test unless an agent is told of each of the ends, once, by an error of its own daemon.
func isToldBySelf(t *testing.T, told <-chan *client.Inbound, d *running, code kinds.Code, refs ...wire.MessageID) {
	t.Helper()
	for _, in := range isToldOnce(t, told, d, kinds.KindError, refs...) {
		if e := parse[kinds.Error](t, in.Payload); e.Code != code || in.Name != d.name {
			t.Errorf("%s says %s", in.Name, in.Payload)
		}
	}
}

// TestKeptAndRefusedByThePeer: what its policy forbids at the retry ends, of each kind, and its sender is told once.
func TestKeptAndRefusedByThePeer(t *testing.T) {
	t.Parallel()
	desk, laptop, planner, told := awayPair(t)
	ids := []wire.MessageID{planner.kept("query", keptQuery("laptop")), planner.kept("notify", keptNotify("laptop")), planner.kept("delegate", keptTask("laptop"))}
	writeConfig(t, laptop.dir, "policy: {desk: {kinds: [ping]}}\n")
	laptop = laptop.comes()
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		t.Errorf("it gets a %s", r.Method)
		r.Respond(nil)
	})
	desk.knows(laptop)
	for _, id := range ids[:2] {
		if task := planner.ends(id, client.TaskRefused); parse[kinds.Error](t, task.Result).Code != kinds.NotAuthorized || strings.Contains(task.Outcome, "policy") {
			t.Errorf("%+v: %s", task, task.Result)
		}
	}
	planner.ends(ids[2], client.TaskRefused)
	isToldBySelf(t, told, desk, kinds.NotAuthorized, ids...)
}

// TestKeptAndRefusedByAnAgent: a delegation that its agent does not want has its end in the list once.
func TestKeptAndRefusedByAnAgent(t *testing.T) {
	t.Parallel()
	desk, laptop, planner, told := awayPair(t)
	id := planner.kept("delegate", keptTask("laptop"))
	laptop = laptop.comes()
	laptop.agent(client.AttachParams{Name: "reviewer"}, say(`{"accepted":false,"code":"not_authorized","message":"busy"}`))
	desk.knows(laptop)
	planner.ends(id, client.TaskRefused)
	isToldBySelf(t, told, desk, kinds.NotAuthorized, id)
	if all := get[client.Tasks](planner, "tasks", nil).Tasks; len(all) != 1 || all[0].State != client.TaskRefused {
		t.Errorf("%+v", all)
	}
}

// TestKeptAndForbiddenHere: the settings count at the retry, and so does whose name it is.
func TestKeptAndForbiddenHere(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(desk *running){
		"to": func(desk *running) { desk.configure("agents: {planner: {to: [phone]}}\n") },
		"name": func(desk *running) {
			owner := desk.dial()
			owner.must("trust", client.TrustParams{Peer: "laptop", Name: "tower"}, nil)
			owner.must("trust", client.TrustParams{Peer: identity.ID{9}.String(), Name: "laptop"}, nil)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			desk, laptop, planner, told := awayPair(t)
			id := planner.kept("query", keptQuery("laptop"))
			change(desk)
			laptop = laptop.comes()
			laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
				t.Errorf("it gets a %s", r.Method)
				r.Respond(nil)
			})
			desk.knows(laptop)
			planner.ends(id, client.TaskRefused)
			isToldBySelf(t, told, desk, kinds.NotAuthorized, id)
		})
	}
}

// TestKeptForARenamedPeer: it is for the key.
func TestKeptForARenamedPeer(t *testing.T) {
	t.Parallel()
	desk, laptop, planner, told := awayPair(t)
	id := planner.kept("query", keptQuery("laptop"))
	desk.dial().must("trust", client.TrustParams{Peer: "laptop", Name: "tower"}, nil)
	if task := planner.state(id); task.Peer != "tower" {
		t.Errorf("%+v", task)
	}
	laptop = laptop.comes()
	laptop.agent(client.AttachParams{Name: "reviewer"}, say(`{"summary":"42"}`))
	desk.knows(laptop)
	planner.ends(id, client.TaskCompleted)
	if in := isToldOnce(t, told, laptop, kinds.KindResult, id)[0]; in.Name != "tower" {
		t.Errorf("%+v", in)
	}
}

// TestKeptAndExpired: at its time a message ends, and is not sent afterwards.
func TestKeptAndExpired(t *testing.T) {
	t.Parallel()
	desk, laptop, planner, told := awayPair(t)
	p := keptNotify("laptop")
	p.KeepMS = 1
	planner.refused(kinds.Kept, "notify", p)
	if task := planner.ends(p.ID, client.TaskExpired); !strings.Contains(task.Outcome, "laptop") {
		t.Errorf("%+v", task)
	}
	isToldBySelf(t, told, desk, kinds.Timeout, p.ID)
	laptop = laptop.comes()
	desk.knows(laptop)
	desk.dial().must("ping", client.PingParams{To: "laptop"}, nil)
	if n := laptop.rows("daemon_inbox"); n != 0 {
		t.Errorf("%d messages have come", n)
	}
}

// TestKeptAndWithdrawn: by its sender, or by the owner, and by nobody else; and a wait for it ends.
func TestKeptAndWithdrawn(t *testing.T) {
	t.Parallel()
	desk, laptop, planner, told := awayPair(t)
	asked, given := planner.kept("query", keptQuery("laptop")), planner.kept("delegate", keptTask("laptop"))
	tester, _ := desk.guestAgent(client.AttachParams{Name: "tester"}, say(`{}`))
	byTester := tester.kept("notify", keptNotify("laptop"))
	stranger := desk.guest(nil)
	for _, who := range []*program{tester, stranger} {
		who.refused(kinds.NotFound, "task", client.TaskParams{ID: asked})
		who.refused(kinds.NotFound, "wait", client.WaitParams{ID: asked})
		who.refused(kinds.NotFound, "cancel", client.CancelParams{Ref: asked})
	}
	for who, want := range map[*program][]wire.MessageID{tester: {byTester}, planner: {given, asked}, stranger: nil, desk.dial(): {byTester, given, asked}} {
		all := get[client.Tasks](who, "tasks", nil).Tasks
		for i, id := range want {
			if len(all) != len(want) || all[i].ID != id || all[i].State != client.TaskKept {
				t.Errorf("%d of %+v is not %s", i, all, id)
			}
		}
		if len(all) != len(want) {
			t.Errorf("%+v", all)
		}
	}
	planner.refused(kinds.Timeout, "wait", client.WaitParams{ID: asked, TimeoutMS: 1})
	waiting := later(planner, "wait", client.WaitParams{ID: asked})
	if ack := parse[kinds.Ack](t, get[client.CancelAnswer](planner, "cancel", client.CancelParams{Ref: asked, Payload: wire.Payload(`{"reason":"not needed"}`)}).Payload); !ack.Accepted {
		t.Errorf("%+v", ack)
	}
	if err := await.Receive(t, "the wait", waiting); err != nil {
		t.Error(err)
	}
	desk.dial().must("cancel", client.CancelParams{Ref: given}, nil)
	for _, id := range []wire.MessageID{asked, given} {
		planner.ends(id, client.TaskWithdrawn)
	}
	isToldBySelf(t, told, desk, kinds.Cancelled, given)          // the planner knows what it has withdrawn itself
	planner.must("cancel", client.CancelParams{Ref: asked}, nil) // a repeat
	laptop = laptop.comes()
	desk.knows(laptop)
	tester.ends(byTester, client.TaskHeld)
	if n := laptop.rows("daemon_inbox"); n != 1 || len(told) > 0 {
		t.Errorf("%d messages have come, %d more are told", n, len(told))
	}
}

// TestWithdrawnWhileItIsSent: the agent there is told to give up, and the sender hears that it may have had it.
func TestWithdrawnWhileItIsSent(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]client.TaskState{kinds.KindQuery: client.TaskUnknown, kinds.KindDelegate: client.TaskCancelled} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			desk, laptop, planner, told := awayPair(t)
			var p any = keptQuery("laptop")
			if kind == kinds.KindDelegate {
				p = keptTask("laptop")
			}
			id := planner.kept(kind, p)
			laptop = laptop.comes()
			began, over := make(chan string, 8), make(chan struct{}, 8)
			laptop.agent(client.AttachParams{Name: "reviewer"}, func(ctx context.Context, r *jsonrpc.Request) {
				began <- r.Method
				if r.Method == kind {
					<-ctx.Done()
					over <- struct{}{}
				}
				r.Respond(wire.Payload(accepted))
			})
			desk.knows(laptop)
			if method := await.Receive(t, "it is sent", began); method != kind {
				t.Errorf("it gets a %s", method)
			}
			planner.must("cancel", client.CancelParams{Ref: id}, nil)
			if kind == kinds.KindQuery {
				await.Receive(t, "the agent is told to give up", over)
				isToldBySelf(t, told, desk, kinds.Internal, id)
			}
			if task := get[client.Task](planner, "wait", client.WaitParams{ID: id}); task.State != want || want == client.TaskUnknown && !strings.Contains(task.Outcome, "it may have arrived") {
				t.Errorf("%+v", task)
			}
			if len(told) > 0 || len(get[client.Tasks](planner, "tasks", nil).Tasks) != 1 {
				t.Errorf("it is told %d times more", len(told))
			}
		})
	}
}

// TestKeptOverRestarts: what is kept goes on; what was being sent has one end, of which its sender is told once.
func TestKeptOverRestarts(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.stop()
	planner, key := desk.guestAgent(client.AttachParams{Name: "planner", Kinds: []string{"notify"}}, say(`{}`))
	sent, next := planner.kept("query", keptQuery("laptop")), planner.kept("query", keptQuery("laptop"))
	desk.stop()
	desk = desk.comes()
	if task := desk.dial().state(next); task.State != client.TaskKept || task.Kept.Tries == 0 {
		t.Errorf("%+v", task)
	}
	laptop = laptop.comes()
	began := make(chan wire.MessageID, 8)
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(ctx context.Context, r *jsonrpc.Request) {
		id := bind(t, r).ID
		if began <- id; id == sent {
			<-ctx.Done()
		}
		r.Respond(wire.Payload(`{"summary":"42"}`))
	})
	desk.knows(laptop)
	if id := await.Receive(t, "the first", began); id != sent {
		t.Errorf("%s is sent first", id)
	}
	desk.stop()
	desk = desk.comes()
	desk.knows(laptop)
	owner := desk.dial()
	owner.ends(sent, client.TaskUnknown)
	owner.ends(next, client.TaskCompleted)
	desk.stop()
	desk = desk.comes()
	again, _ := desk.guestAgent(client.AttachParams{Name: "planner", Key: key, Kinds: []string{"notify"}}, say(`{}`))
	if task := again.ends(sent, client.TaskUnknown); parse[kinds.Error](t, task.Result).Code != kinds.Internal {
		t.Errorf("%s", task.Result)
	}
	told := make(map[wire.MessageID]string)
	await.Until(t, "the ends are told", func() bool {
		for _, m := range get[client.Inbox](again, "inbox", client.InboxParams{}).Messages {
			told[*m.Envelope.Ref] = m.Envelope.Kind
		}
		return len(told) == 2
	})
	if n := desk.rows("daemon_inbox"); n != 2 || told[sent] != kinds.KindError || told[next] != kinds.KindResult {
		t.Errorf("%d are told: %v", n, told)
	}
	if id := await.Receive(t, "the second", began); id != next || len(began) > 0 {
		t.Errorf("%s is sent next, and %d more", id, len(began))
	}
}

// TestUntrustEndsWhatIsKept: the sender is told by its own daemon, whose word the untrust leaves in the inbox.
func TestUntrustEndsWhatIsKept(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, _ := desk.guestAgent(client.AttachParams{Name: "planner", Kinds: []string{"query"}}, say(`{}`))
	laptop.dial().notify(client.NotifyParams{To: client.To("desk/planner"), Payload: wire.Payload(`{"topic":"t"}`)})
	laptop.stop()
	ids := []wire.MessageID{planner.kept("query", keptQuery("laptop")), planner.kept("delegate", keptTask("laptop/reviewer"))}
	owner := desk.dial()
	owner.must("untrust", client.UntrustParams{Peer: "laptop"}, nil)
	for _, id := range ids {
		if task := owner.ends(id, client.TaskRefused); !strings.Contains(task.Outcome, "laptop is not trusted") {
			t.Errorf("%+v", task)
		}
	}
	var all []client.HeldMessage
	await.Until(t, "the ends are told", func() bool {
		all = get[client.Inbox](planner, "inbox", client.InboxParams{}).Messages
		return len(all) >= len(ids)
	})
	for _, m := range all {
		if m.Envelope.From != desk.ID() || m.Origin != client.OriginDaemon || m.Envelope.Kind != kinds.KindError {
			t.Errorf("%+v", m)
		}
	}
	if len(all) != 2 {
		t.Errorf("%d messages", len(all))
	}
}

// TestKeptForACertifiedPeer: it is kept while nobody shows the certificate, sent when somebody does, and ends when the
// owner refuses the peer.
func TestKeptForACertifiedPeer(t *testing.T) {
	t.Parallel()
	_, desk, build := fleet(t, "", "policy: {desk.corp: {kinds: [ping, query, notify]}}\n")
	planner, _ := desk.guestAgent(client.AttachParams{Name: "planner", Kinds: []string{"query"}}, say(`{}`))
	desk.dial().reach("build-7.corp")
	build.stop()
	await.Until(t, "it has gone", func() bool { _, there := desk.node.Peer(build.ID()); return !there })
	asked := planner.kept("query", keptQuery("build-7.corp"))
	noted := planner.kept("notify", keptNotify("build-7.corp/reviewer"))
	desk.kept.TryNow(build.ID())
	planner.stays(asked)
	build = build.comes()
	build.agent(client.AttachParams{Name: "builder", Kinds: []string{"query"}}, say(`{"summary":"green"}`))
	desk.dial().reach("build-7.corp")
	planner.ends(asked, client.TaskCompleted)
	planner.ends(noted, client.TaskHeld)
	last := planner.kept("query", keptQuery("build-7.corp/absent"))
	desk.dial().must("untrust", client.UntrustParams{Peer: "build-7.corp"}, nil)
	desk.dial().ends(last, client.TaskRefused)
}

// TestOneAgentKeepsHalf: the one that is refused says what to do, and what is kept stays.
func TestOneAgentKeepsHalf(t *testing.T) {
	t.Parallel()
	desk, _, planner, _ := awayPair(t)
	var last wire.MessageID
	for range 100 {
		last = planner.kept("notify", keptNotify("laptop"))
	}
	if e := planner.refused(kinds.Overloaded, "notify", keptNotify("laptop"), "not kept", "100 messages", "acpctl cancel"); e.Delivered() != kinds.DeliveredNo {
		t.Errorf("%s", e.Details)
	}
	planner.must("cancel", client.CancelParams{Ref: last}, nil)
	planner.kept("notify", keptNotify("laptop"))
	planner.refused(kinds.Overloaded, "notify", keptNotify("laptop/reviewer"), "not kept")
	desk.dial().kept("notify", keptNotify("laptop"))
}

// TestKeptOnALowDisk: what does not arrive is not kept, and its caller hears so.
func TestKeptOnALowDisk(t *testing.T) {
	t.Parallel()
	desk, free := startWithDisk(t)
	laptop := start(t, stateDir(t), "laptop")
	befriend(t, desk, laptop)
	free.Store(1<<30 - 1)
	await.Until(t, "the floor is noticed", func() bool { return desk.space.IsLow() })
	asker := desk.dial()
	for method, p := range map[string]any{"query": keptQuery("laptop"), "delegate": keptTask("laptop")} {
		if e := asker.refused(kinds.Overloaded, method, p, "not kept", "budget: free_space"); e.Delivered() != kinds.DeliveredNo {
			t.Errorf("%s", e.Details)
		}
	}
	if n := len(get[client.Tasks](asker, "tasks", nil).Tasks) + desk.rows("daemon_kept"); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// TestAnEndThatIsNotOnTheDisk: the answer comes all the same, and the query is not sent again, also after a restart.
func TestAnEndThatIsNotOnTheDisk(t *testing.T) {
	t.Parallel()
	desk, laptop, planner, told := awayPair(t)
	id := planner.kept("query", keptQuery("laptop"))
	statedb.Exec(t, desk.store, "CREATE TRIGGER full BEFORE UPDATE OF ended ON daemon_kept BEGIN SELECT RAISE(ABORT, 'full'); END")
	laptop = laptop.comes()
	var runs atomic.Int32
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		runs.Add(1)
		r.Respond(wire.Payload(`{"summary":"42"}`))
	})
	desk.knows(laptop)
	if task := planner.ends(id, client.TaskCompleted); parse[kinds.Result](t, task.Result).Outcome != "42" {
		t.Errorf("%s", task.Result)
	}
	isToldOnce(t, told, laptop, kinds.KindResult, id)
	desk.stop()
	desk = desk.comes()
	desk.knows(laptop)
	owner := desk.dial()
	owner.ends(id, client.TaskUnknown)
	owner.must("ping", client.PingParams{To: "laptop"}, nil)
	if n := runs.Load(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// TestEndsOfWhatIsKeptWakeASession: the answer of the peer, or the word of its own daemon, if its owner lets answers wake
// it; once.
func TestEndsOfWhatIsKeptWakeASession(t *testing.T) {
	t.Parallel()
	for _, want := range []client.TaskState{client.TaskCompleted, client.TaskWithdrawn} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			desk, laptop := pair(t)
			events := desk.subscribe(client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventKept}}})
			s := desk.session("claude")
			desk.dial().must("wake.answers", client.WakeAnswersParams{On: true, Agent: "claude", Unattended: true}, nil)
			id, from, kind := s.kept("query", keptQuery("laptop")), desk.ID(), kinds.KindError
			if want == client.TaskCompleted {
				laptop.agent(client.AttachParams{Name: "reviewer"}, say(`{"summary":"42"}`))
				from, kind = laptop.ID(), kinds.KindResult
			} else {
				desk.dial().must("cancel", client.CancelParams{Ref: id}, nil)
			}
			if in := s.next(true); in.Kind != kind || in.From != from || in.Ref == nil || *in.Ref != id || in.Delegation == nil || in.Delegation.State != want {
				t.Errorf("%+v", in)
			}
			for _, state := range []client.TaskState{client.TaskKept, want} {
				e := await.Receive(t, "the event", events)
				if details := kinds.EncodePayload(client.KeptEvent{ID: id, Kind: kinds.KindQuery, State: state}); e.Peer != laptop.ID() || string(e.Details) != string(details.Object()) {
					t.Errorf("%+v: %s, want %s", e, e.Details, details)
				}
			}
			if unread := s.unread(); len(unread) != 1 || len(s.told) > 0 {
				t.Errorf("%v are in the inbox, and it is told %d times more", unread, len(s.told))
			}
		})
	}
}
