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
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// liveSession is a session in the agents' folder of a daemon, whose program a test plays.
type liveSession struct {
	*local
	d    *running
	key  string
	name string

	mu     sync.Mutex // guards the rest
	answer func(*client.Inbound) client.WakeAnswer

	working atomic.Int32         // queries and delegations that it has not answered
	told    chan *client.Inbound // what it was called with
	release chan wire.Payload    // the answers of the model to queries and delegations
}

var claude = &client.SessionInfo{Harness: "claude", Version: "2.1.330"}

// session attaches a session that posts what it may be woken for, and proves nothing.
func (d *running) session(name string) *liveSession {
	d.t.Helper()
	return d.sessionWith(client.AttachParams{Name: name, Session: claude})
}

// sessionWith attaches a session that has as many places as acpctl mcp gives one.
func (d *running) sessionWith(p client.AttachParams) *liveSession {
	d.t.Helper()
	p.MaxConcurrent = 16
	s := &liveSession{d: d, name: p.Name, told: make(chan *client.Inbound, 256), release: make(chan wire.Payload, 64)}
	s.answer = func(in *client.Inbound) client.WakeAnswer { return client.WakeAnswer{Posted: in.Wake != nil} }
	s.local, s.key = d.guestAgent(p, func(ctx context.Context, r *jsonrpc.Request) {
		in := bind(d.t, r)
		if r.Method == client.MethodWake {
			s.mu.Lock()
			answer := s.answer(in)
			s.mu.Unlock()
			s.tell(in)
			r.Respond(&answer)
			return
		}
		s.working.Add(1)
		defer s.working.Add(-1)
		s.tell(in)
		select {
		case answer := <-s.release:
			r.Respond(answer)
		case <-ctx.Done():
		}
	})
	return s
}

func (s *liveSession) tell(in *client.Inbound) {
	select {
	case s.told <- in:
	default: // of a flood, nobody looks at all
	}
}

// says makes the session's program answer wakes so.
func (s *liveSession) says(answer func(*client.Inbound) client.WakeAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// next returns what the session was told of next.
func (s *liveSession) next(grant bool) *client.Inbound {
	s.t.Helper()
	in := await.Receive(s.t, "what the session is told", s.told)
	if (in.Wake != nil) != grant {
		s.t.Errorf("%s %s came with the grant %+v, want one: %v", in.Kind, in.ID, in.Wake, grant)
	}
	return in
}

// unread returns the messages in the inbox that are for the session, as its tool call does.
func (s *liveSession) unread() (ids []wire.MessageID) {
	s.t.Helper()
	var in client.Inbox
	s.must("inbox", client.InboxParams{Limit: 1000}, &in)
	for _, m := range in.Messages {
		ids = append(ids, m.Envelope.ID)
	}
	return ids
}

// notice returns a notify for the session.
func (s *liveSession) notice(peer string) client.NotifyParams {
	return client.NotifyParams{To: client.To(peer + "/" + s.name), Payload: wire.Payload(`{"topic":"t"}`)}
}

// allow lets a peer wake sessions.
func (d *running) allow(p client.WakeAllowParams) {
	d.t.Helper()
	d.dial().must("wake.allow", p, nil)
}

func (l *local) notify(p client.NotifyParams) client.Receipt {
	l.t.Helper()
	var got client.Receipt
	l.must("notify", p, &got)
	return got
}

// What names no agent goes to agents that answer by themselves, as long as one takes it. A
// session comes after them, and only if the peer may wake it.
func TestSessionsComeAfterAgentsThatAnswer(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk", Kinds: []string{"query"}})
	serve := laptop.agent(client.AttachParams{Name: "serve"}, say(`{"summary":"serve"}`))
	s := laptop.session("claude") // the one that attached last
	asker := desk.dial()
	for range 100 {
		var got client.Answer
		if asker.must("query", client.QueryParams{To: "laptop", Payload: query("?")}, &got); parse[kinds.Response](t, got.Payload).Summary != "serve" {
			t.Fatalf("the answer is %s", got.Payload)
		}
	}
	if len(s.told) > 0 {
		t.Error("the session was told of a query")
	}
	serve.Close()
	await.Until(t, "serve has left", func() bool { return laptop.agents.FindByName("serve") == nil })
	s.release <- wire.Payload(`{"summary":"claude"}`)
	var got client.Answer
	if asker.must("query", client.QueryParams{To: "laptop", Payload: query("?")}, &got); parse[kinds.Response](t, got.Payload).Summary != "claude" {
		t.Errorf("the answer is %s", got.Payload)
	}
	if in := s.next(true); in.Wake.Unattended {
		t.Error("it may be woken unattended")
	}
	asker.refused(kinds.NoAgent, "delegate", client.DelegateParams{To: "laptop", Payload: task1("")})
	laptop.dial().must("wake.revoke", client.WakeRevokeParams{Peer: "desk"}, nil)
	asker.refused(kinds.NoAgent, "query", client.QueryParams{To: "laptop", Payload: query("?")})
}

// A session takes what names it, also from a peer that may not wake it: that waits for its next
// tool call, until the deadline.
func TestASessionTakesWhatNamesIt(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	s := laptop.session("claude")
	asker := desk.dial()
	asker.refused(kinds.Timeout, "query", client.QueryParams{To: "laptop/claude", Payload: wire.Payload(`{"question":"?","deadline_ms":50}`)})
	s.next(false)
	await.Until(t, "the session has given it up", func() bool { return s.working.Load() == 0 })
	s.release <- wire.Payload(`{"summary":"later"}`)
	asker.must("query", client.QueryParams{To: "laptop/claude", Payload: query("?")}, nil)
	s.next(false)
	s.release <- wire.Payload(accepted)
	if given := delegateTo(asker, "laptop/claude", task1("")); asker.state(given.ID).State != client.TaskAccepted {
		t.Error("the delegation is not accepted")
	}
	s.next(false)
}

// A message for a session is on disk before the session is told of it, and a wake is no receipt:
// handed is what the session acknowledges in time, or what its program has proved.
func TestAWakeIsNoReceipt(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	s := laptop.session("claude")
	asker := desk.dial()
	held := func() int { return laptop.rows("daemon_inbox") }
	before := time.Now()
	if r := asker.notify(s.notice("laptop")); r.State != client.Held || held() != 1 {
		t.Errorf("without a permission: %+v, %d held", r, held())
	}
	if s.next(false); time.Since(before) > confirmTime {
		t.Error("a sender waits for a session that is not woken")
	}

	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s.says(func(in *client.Inbound) client.WakeAnswer {
		if laptop.rows("daemon_inbox") != 2 {
			t.Error("the session is woken for what is not on disk")
		}
		return client.WakeAnswer{Posted: true}
	})
	if r := asker.notify(s.notice("laptop")); r.State != client.Held {
		t.Errorf("posted, and not read: %+v", r)
	}
	s.next(true)
	if ids := s.unread(); len(ids) != 2 {
		t.Fatalf("%d are unread", len(ids))
	} else {
		s.must("ack", client.AckParams{IDs: ids}, nil)
	}

	s.says(func(in *client.Inbound) client.WakeAnswer {
		go func() {
			s.unread()
			s.call("ack", client.AckParams{IDs: []wire.MessageID{in.ID}}, nil)
		}()
		return client.WakeAnswer{Posted: true}
	})
	time.Sleep(300 * time.Millisecond) // the pause between two wakes
	if r := asker.notify(s.notice("laptop")); r.State != client.Handed || held() != 0 {
		t.Errorf("acknowledged: %+v, %d held", r, held())
	}
	s.next(true)

	s.says(func(in *client.Inbound) client.WakeAnswer { return client.WakeAnswer{Posted: true, Proven: true} })
	time.Sleep(300 * time.Millisecond)
	if r := asker.notify(s.notice("laptop")); r.State != client.Handed || held() != 0 {
		t.Errorf("proven: %+v, %d held", r, held())
	}
	s.next(true)

	// A program that has no session answers at all.
	s.says(func(in *client.Inbound) client.WakeAnswer { s.Close(); return client.WakeAnswer{Posted: true} })
	time.Sleep(300 * time.Millisecond)
	before = time.Now()
	if r := asker.notify(s.notice("laptop")); r.State != client.Held || held() != 1 {
		t.Errorf("the session ended: %+v, %d held", r, held())
	}
	if time.Since(before) > confirmTime {
		t.Error("the sender waits for a session that has ended")
	}
}

// Nothing that a session had taken on waits for another one of its name: its asker hears
// no_agent, and that the model may have begun.
func TestASessionThatEndsTellsItsAskers(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	s := laptop.session("claude")
	asker := desk.dial()
	s.release <- wire.Payload(accepted)
	given := delegateTo(asker, "laptop/claude", task1(""))
	s.next(false)
	failed := make(chan error, 2)
	for _, call := range []func() error{
		func() error {
			return desk.dial().call("query", client.QueryParams{To: "laptop/claude", Payload: query("?")}, nil)
		},
		func() error {
			return desk.dial().call("delegate", client.DelegateParams{To: "laptop/claude", Payload: task1("")}, nil)
		},
	} {
		go func() { failed <- call() }()
		s.next(false)
	}
	s.Close()
	for range 2 {
		err := await.Receive(t, "the error", failed)
		if e, ok := errors.AsType[*kinds.Error](err); !ok || e.Code != kinds.NoAgent || e.Delivered() != kinds.DeliveredUnknown || e.From == "" {
			t.Errorf("the asker hears %v", err)
		}
	}
	var end client.Task
	asker.must("wait", client.WaitParams{ID: given.ID}, &end)
	if e := parse[kinds.Error](t, end.Result); end.State != client.TaskFailed || e.Code != kinds.NoAgent || e.Delivered() != kinds.DeliveredUnknown {
		t.Errorf("the delegation is %+v: %s", end.State, end.Result)
	}
}

// Answers to what a session asked wake it if its owner says so: final ones, once each.
func TestAnswersWakeWhoAsked(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker := laptop.agent(client.AttachParams{Name: "welder"}, say(accepted))
	s := desk.session("claude")
	reports := func(given *client.DelegateAnswer, payload wire.Payload) client.Receipt {
		t.Helper()
		var got client.Receipt
		worker.must("result", client.ResultParams{Ref: given.ID, Payload: payload}, &got)
		return got
	}
	given := delegateTo(s.local, "laptop", task1(""))
	reports(given, completed("off"))
	s.next(false)
	desk.dial().must("wake.answers", client.WakeAnswersParams{On: true, Agent: "claude", Unattended: true}, nil)
	given = delegateTo(s.local, "laptop", task1(""))
	for range 3 {
		if r := reports(given, kinds.EncodePayload(&kinds.Result{Status: "partial", Outcome: "so far"})); r.State != client.Held {
			t.Errorf("a partial result: %+v", r) // the task has it, and the session is not told
		}
	}
	s.says(func(in *client.Inbound) client.WakeAnswer {
		if in.Wake == nil {
			return client.WakeAnswer{}
		}
		if in.Delegation == nil || in.Delegation.ID != given.ID {
			t.Errorf("the delegation is %+v", in.Delegation)
		}
		return client.WakeAnswer{Posted: true, Proven: true}
	})
	if r := reports(given, completed("done")); r.State != client.Handed {
		t.Errorf("the final result: %+v", r)
	}
	if in := s.next(true); !in.Wake.Unattended {
		t.Error("not unattended")
	}
	// Another peer's, and what the session did not ask, wake nobody.
	if r := laptop.dial().notify(s.notice("desk")); r.State != client.Held {
		t.Errorf("a notify: %+v", r)
	}
	s.next(false)
	var agents client.Agents
	desk.dial().must("agents", nil, &agents)
	if w := agents.Agents[0].Woken; w == nil || w.Day != 1 || len(w.By) != 1 || w.By[0].Name != "laptop" {
		t.Errorf("woken: %+v", w)
	}
}

// With ask, a message waits for the owner's word: yes, always, no.
func TestApprovals(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: true})
	s := laptop.session("claude")
	asker, owner := desk.dial(), laptop.dial()
	pending := func() []client.Approval {
		t.Helper()
		var all client.Approvals
		owner.must("approvals", nil, &all)
		return all.Approvals
	}
	decide := func(answer string) {
		t.Helper()
		all := pending()
		if len(all) != 1 || all[0].Agent != "claude" || all[0].Name != "desk" {
			t.Fatalf("approvals: %+v", all)
		}
		owner.must("approvals.decide", client.ApproveParams{ID: all[0].ID, Answer: answer}, nil)
	}
	ask := func() {
		t.Helper()
		if r := asker.notify(s.notice("laptop")); r.State != client.Held {
			t.Errorf("%+v", r)
		}
		s.next(false)
	}
	proves := func(in *client.Inbound) client.WakeAnswer {
		return client.WakeAnswer{Posted: in.Wake != nil, Proven: in.Wake != nil}
	}
	s.says(proves)
	ask()
	var state client.SessionState
	if s.must("session", nil, &state); state.Unread != 1 || len(state.Notices) != 1 || !strings.Contains(state.Notices[0], "acpctl approvals") {
		t.Errorf("the session hears %+v", state)
	}
	decide("no")
	if len(pending()) != 0 || len(s.told) != 0 {
		t.Error("no is not no")
	}
	ask()
	decide("yes")
	s.next(true)
	ask()
	decide("always")
	s.next(true)
	time.Sleep(300 * time.Millisecond)
	if r := asker.notify(s.notice("laptop")); r.State != client.Handed {
		t.Errorf("after always: %+v", r)
	}
	s.next(true)
	if n := len(s.unread()); n != 1 {
		t.Errorf("%d are unread, want the one that was refused", n)
	}

	// A query is with the session already, and wakes it when it may.
	go desk.dial().call("query", client.QueryParams{To: "laptop/claude", Payload: query("?")}, nil)
	first := s.next(false)
	decide("yes")
	if again := s.next(true); again.ID != first.ID {
		t.Errorf("woken for %s, asked %s", again.ID, first.ID)
	}
	s.release <- wire.Payload(`{"summary":"x"}`)

	// What nobody waits for any more is no question to the owner.
	desk.dial().refused(kinds.Timeout, "query", client.QueryParams{To: "laptop/claude", Payload: wire.Payload(`{"question":"?","deadline_ms":50}`)})
	s.next(false)
	await.Until(t, "the approval is gone", func() bool { return len(pending()) == 0 })
	time.Sleep(300 * time.Millisecond)
	ask2 := asker.notify(client.NotifyParams{To: client.To("laptop/claude"), Payload: wire.Payload(`{"topic":"t"}`)})
	if s.next(true); ask2.State != client.Handed {
		t.Errorf("%+v", ask2)
	}
	owner.refused(kinds.NotFound, "approvals.decide", client.ApproveParams{ID: "1", Answer: "yes"})
	owner.refused(kinds.Invalid, "approvals.decide", client.ApproveParams{ID: "1", Answer: "perhaps"})
}

// A trusted peer that may wake a session and does nothing else causes half of the turns at most,
// and keeps nobody else from waking it. Its owner hears of it, and a restart forgets nothing.
func TestAHostilePeerWakesNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	laptop := start(t, dir, "laptop")
	desk, planner := start(t, stateDir(t), "desk"), start(t, stateDir(t), "planner")
	befriend(t, desk, laptop)
	befriend(t, planner, laptop)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	laptop.allow(client.WakeAllowParams{Peer: "planner"})
	events := laptop.subscribe(client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventBudget}}})
	s := laptop.session("claude")
	s.says(func(in *client.Inbound) client.WakeAnswer {
		return client.WakeAnswer{Posted: in.Wake != nil, Proven: in.Wake != nil}
	})
	flood := func(l *local, n int) (handed int) {
		var all sync.WaitGroup
		var mu sync.Mutex
		for range n {
			all.Go(func() {
				r := l.notify(s.notice("laptop"))
				mu.Lock()
				defer mu.Unlock()
				if r.State == client.Handed {
					handed++
				}
			})
		}
		all.Wait()
		return handed
	}
	woken := func(name string) (n int) {
		var all client.Agents
		laptop.dial().must("agents", nil, &all)
		for _, a := range all.Agents {
			if a.Name == "claude" {
				for _, by := range a.Woken.By {
					if by.Name == name {
						n = by.Hour
					}
				}
			}
		}
		return n
	}
	flood(desk.dial(), 40)
	await.Until(t, "the hostile peer has had its share", func() bool {
		flood(desk.dial(), 1)
		return woken("desk") == 10
	})
	if e := await.Receive(t, "event", events); e.Name != "desk" || !strings.Contains(string(e.Details), `"agent":"claude"`) {
		t.Errorf("the event is %+v", e)
	}
	flood(desk.dial(), 20)
	if n := woken("desk"); n != 10 {
		t.Errorf("the hostile peer woke it %d times", n)
	}
	var status client.Status
	laptop.dial().must("status", nil, &status)
	if !slices.ContainsFunc(status.Warnings, func(w string) bool { return strings.Contains(w, "of claude") && strings.Contains(w, "desk") }) {
		t.Errorf("the status says %q", status.Warnings)
	}
	other := planner.dial().notify(s.notice("laptop"))
	await.Until(t, "another peer has woken it", func() bool {
		left, err := laptop.inbox.ReadMessage(t.Context(), inbox.MessageKey{Peer: planner.ID(), ID: other.ID})
		return err == nil && left == nil && woken("planner") == 1
	})

	s.Close()
	laptop.stop()
	laptop = start(t, dir, "laptop")
	await.Until(t, "connected again", func() bool { _, up := laptop.node.Peer(desk.ID()); return up })
	s = laptop.session("claude")
	s.says(func(in *client.Inbound) client.WakeAnswer {
		return client.WakeAnswer{Posted: in.Wake != nil, Proven: in.Wake != nil}
	})
	if n := flood(desk.dial(), 1); n != 0 {
		t.Error("a restart gives the hostile peer a new share")
	}
	laptop.dial().must("untrust", client.UntrustParams{Peer: "desk"}, nil)
	var rules client.WakeRules
	laptop.dial().must("wake.list", nil, &rules)
	if slices.ContainsFunc(rules.Rules, func(r client.WakeRule) bool { return r.Peer == desk.ID() }) || woken("desk") != 0 || laptop.rows("daemon_turn") != 1 {
		t.Errorf("untrust leaves %+v, %d turns", rules.Rules, laptop.rows("daemon_turn"))
	}
	laptop.dial().must("trust", client.TrustParams{Peer: desk.ID().String()}, nil)
	await.Until(t, "connected again", func() bool { _, up := desk.node.Peer(laptop.ID()); return up })
	if n := flood(desk.dial(), 1); n != 0 {
		t.Error("what was allowed before untrust counts again")
	}
}

// subscribe returns the events that a subscriber gets.
func (d *running) subscribe(p client.SubscribeParams) <-chan *client.Event {
	d.t.Helper()
	events := make(chan *client.Event, 64)
	l := d.dialWith(func(_ context.Context, r *jsonrpc.Request) {
		if r.Method == client.NotificationEvent {
			e := new(client.Event)
			if err := r.ReadParams(e); err == nil {
				events <- e
			}
		}
	})
	l.must("subscribe", p, nil)
	return events
}

// What a session sends in a turn that a peer has woken counts against that peer, and so does the
// turn that the answer begins.
func TestWhatAWokenTurnSendsIsItsPeersToPayFor(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner := start(t, stateDir(t), "planner")
	befriend(t, laptop, planner)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	laptop.dial().must("wake.answers", client.WakeAnswersParams{On: true}, nil)
	worker := planner.agent(client.AttachParams{Name: "welder"}, say(accepted))
	s := laptop.session("claude")
	s.says(func(in *client.Inbound) client.WakeAnswer { return client.WakeAnswer{Posted: true, Proven: true} })
	desk.dial().notify(s.notice("laptop"))
	woke := s.next(true)
	var given client.DelegateAnswer
	s.must("delegate", client.DelegateParams{Head: client.Head{Parent: woke.ID}, To: "planner", Payload: task1("")}, &given)
	time.Sleep(300 * time.Millisecond)
	worker.must("result", client.ResultParams{Ref: given.ID, Payload: completed("done")}, nil)
	answered := s.next(true)
	state := laptop.waker.Describe("claude")
	if state.Day != 2 || len(state.By) != 1 || state.By[0].Peer != desk.ID() {
		t.Errorf("turns: %+v", state)
	}
	for i := range 250 { // of 500 a day, 100 an hour, half
		p := client.NotifyParams{Head: client.Head{Parent: []wire.MessageID{woke.ID, answered.ID}[i%2]}, To: client.To("planner"), Payload: wire.Payload(`{"topic":"t"}`)}
		err := s.call("notify", p, nil)
		if i < 49 && err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if e, ok := errors.AsType[*kinds.Error](err); i >= 49 && (!ok || e.Code != kinds.Overloaded || !strings.Contains(e.Message, "desk has woken this session")) {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	s.must("notify", client.NotifyParams{To: client.To("planner"), Payload: wire.Payload(`{"topic":"t"}`)}, nil) // the user's own
}

// A session that has come back is woken for what was held while it was away, and not twice for
// one message.
func TestASessionThatComesBackIsWokenForWhatIsHeld(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	desk, laptop := start(t, stateDir(t), "desk"), start(t, dir, "laptop")
	befriend(t, desk, laptop)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s := laptop.session("claude")
	desk.dial().notify(s.notice("laptop")) // posted, and never read
	s.next(true)
	s.Close()
	await.Until(t, "the session has ended", func() bool { return laptop.agents.FindByName("claude") == nil })
	second := desk.dial().notify(s.notice("laptop"))
	laptop.stop()
	laptop = start(t, dir, "laptop")
	fresh := laptop.session("codex")
	again := laptop.sessionWith(client.AttachParams{Name: "claude", Session: claude, Key: s.key})
	if in := again.next(true); in.ID != second.ID {
		t.Errorf("woken for %s, want %s", in.ID, second.ID)
	}
	if len(fresh.told) > 0 || len(again.told) > 0 || len(again.unread()) != 2 {
		t.Errorf("%d and %d more wakes, %d unread", len(fresh.told), len(again.told), len(again.unread()))
	}
}

// One message is in a session at a time, and nothing wakes one that is muted.
func TestOneMessageIsInASessionAtATime(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s := laptop.session("claude")
	asker := desk.dial()
	done := make(chan client.Receipt, 3)
	for range 3 {
		go func() { done <- asker.notify(s.notice("laptop")) }()
	}
	var waiting []*client.Inbound
	var first *client.Inbound
	for range 3 {
		if in := await.Receive(t, "wake", s.told); in.Wake != nil {
			first = in
		} else {
			waiting = append(waiting, in)
		}
	}
	if first == nil || len(waiting) != 2 || laptop.waker.Describe("claude").Waiting != 2 {
		t.Fatalf("%d wait, the first is %v", len(waiting), first)
	}
	s.unread()
	s.must("ack", client.AckParams{IDs: []wire.MessageID{first.ID}}, nil)
	next := s.next(true)
	laptop.dial().must("agents.mute", client.MuteAgentParams{Name: "claude", Secs: 3600}, nil)
	s.must("ack", client.AckParams{IDs: []wire.MessageID{next.ID}}, nil)
	await.Until(t, "nothing waits", func() bool { return laptop.waker.Describe("claude").Waiting == 0 })
	if len(s.told) != 0 || len(s.unread()) != 1 {
		t.Errorf("%d wakes of a muted session, %d unread", len(s.told), len(s.unread()))
	}
	var state client.SessionState
	if s.must("session", nil, &state); len(state.Notices) != 1 || !strings.Contains(state.Notices[0], "muted") {
		t.Errorf("%+v", state)
	}
	for range 3 {
		await.Receive(t, "receipt", done)
	}
	if r := asker.notify(s.notice("laptop")); r.State != client.Held {
		t.Errorf("%+v", r)
	}
	s.next(false)
	laptop.dial().must("agents.mute", client.MuteAgentParams{Name: "claude"}, nil)
	asker.notify(s.notice("laptop"))
	s.next(true)
	for _, bad := range []client.MuteAgentParams{{Name: "claude", Secs: 1 << 40}, {Name: "nobody", Secs: 1}, {}} {
		if err := laptop.dial().call("agents.mute", bad, nil); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// A delegation that a session has accepted without having been woken for it wakes it when the one
// before has ended; one that is cancelled wakes it no more.
func TestAcceptedDelegationsWakeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s := laptop.session("claude")
	asker := desk.dial()
	var given []*client.DelegateAnswer
	for i := range 3 {
		s.release <- wire.Payload(accepted)
		given = append(given, delegateTo(asker, "laptop/claude", task1("")))
		s.next(i == 0)
	}
	s.release <- wire.Payload(accepted)
	asker.must("cancel", client.CancelParams{Ref: given[1].ID}, nil)
	s.next(false)
	if n := laptop.waker.Describe("claude").Waiting; n != 1 {
		t.Errorf("%d wait", n)
	}
	s.must("result", client.ResultParams{Ref: given[0].ID, Payload: completed("done")}, nil)
	if in := s.next(true); in.ID != given[2].ID {
		t.Errorf("woken for %s, want %s", in.ID, given[2].ID)
	}
}

// Settings of agents: whom they may call, on every method that sends, and who wakes them.
func TestSettingsOfAgents(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	writeConfig(t, dir, `
agents:
  claude: {to: [desk], wake: {desk: {kinds: [query]}}}
  "*": {to: []}
  free: {answers: on}
`)
	laptop, desk, planner := start(t, dir, "laptop"), start(t, stateDir(t), "desk"), start(t, stateDir(t), "planner")
	befriend(t, desk, laptop)
	befriend(t, planner, laptop)
	for _, d := range []*running{desk, planner} {
		d.agent(client.AttachParams{Name: "welder"}, func(_ context.Context, r *jsonrpc.Request) {
			if r.Method == "delegate" || r.Method == "cancel" {
				r.Respond(wire.Payload(accepted))
				return
			}
			r.Respond(wire.Payload(`{"summary":"x"}`))
		})
	}
	s := laptop.session("claude")
	free, _ := laptop.guestAgent(client.AttachParams{Name: "free"}, say(accepted))
	id := func(d *running) wire.MessageID { return delegateTo(laptop.dial(), d.name, task1("")).ID }
	sends := func(to *running) map[string]any {
		return map[string]any{
			"ping":     client.PingParams{To: to.name},
			"discover": client.DiscoverParams{To: to.name},
			"query":    client.QueryParams{To: to.name, Payload: query("?")},
			"delegate": client.DelegateParams{To: to.name, Payload: task1("")},
			"cancel":   client.CancelParams{Ref: id(to), To: to.name, Payload: wire.Payload(`{}`)},
			"notify":   client.NotifyParams{To: client.To(to.name), Payload: wire.Payload(`{"topic":"t"}`)},
		}
	}
	own, err := laptop.claudeOnOwnersSocket(s)
	if err != nil {
		t.Fatal(err)
	}
	for method, params := range sends(planner) {
		own.refused(kinds.NotAuthorized, method, params)
		if method == "cancel" { // a guest hears only of its own
			continue
		}
		s.refused(kinds.NotAuthorized, method, params)
		laptop.guest(nil).refused(kinds.NotAuthorized, method, params)
		free.must(method, params, nil)
	}
	for method, params := range sends(desk) {
		own.must(method, params, nil)
		if method != "cancel" {
			s.must(method, params, nil)
		}
	}
	for method, params := range sends(planner) {
		laptop.dial().must(method, params, nil) // the owner
	}

	// Whom it may not call, it still answers; and what another agent has taken it reports to nobody.
	s.release <- wire.Payload(accepted)
	given := delegateTo(planner.dial(), "laptop/claude", task1(""))
	s.refused(kinds.Timeout, "query", client.QueryParams{Ref: given.ID, Payload: wire.Payload(brief)}) // it asks back
	s.must("result", client.ResultParams{Ref: given.ID, Payload: completed("done")}, nil)
	other := delegateTo(planner.dial(), "laptop/free", task1(""))
	own.refused(kinds.NotAuthorized, "query", client.QueryParams{Ref: other.ID, Payload: wire.Payload(brief)})
	own.refused(kinds.NotAuthorized, "result", client.ResultParams{Ref: other.ID, Payload: completed("done")})
	own.refused(kinds.NotAuthorized, "error", client.ResultParams{Ref: other.ID, Payload: kinds.EncodePayload(kinds.Errorf(kinds.Internal, "x"))})

	var rules client.WakeRules
	laptop.dial().must("wake.list", nil, &rules)
	if want := []client.WakeRule{{Peer: desk.ID(), Name: "desk", Kind: "query", Agent: "claude", Source: "config.yaml"}}; !slices.Equal(rules.Rules, want) || len(rules.Answers) != 1 || rules.Answers[0].Agent != "free" {
		t.Errorf("rules: %+v", rules)
	}
	for len(s.told) > 0 {
		<-s.told
	}
	s.release <- wire.Payload(`{"summary":"x"}`)
	desk.dial().must("query", client.QueryParams{To: "laptop/claude", Payload: query("?")}, nil)
	s.next(true)
	s.release <- wire.Payload(`{"summary":"x"}`)
	planner.dial().must("query", client.QueryParams{To: "laptop/claude", Payload: query("?")}, nil)
	s.next(false)
}

// claudeOnOwnersSocket returns a connection on the owner's socket that speaks as a session.
func (d *running) claudeOnOwnersSocket(s *liveSession) (*local, error) {
	l := d.dial()
	return l, l.call("speak", client.SpeakParams{Name: s.name, Key: s.key}, nil)
}

// Rules name one peer each, and outlive a restart.
func TestWakeRules(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	desk, laptop := start(t, stateDir(t), "desk"), start(t, dir, "laptop")
	befriend(t, desk, laptop)
	owner := laptop.dial()
	owner.refused(kinds.Invalid, "wake.allow", client.WakeAllowParams{Peer: "*"})
	owner.refused(kinds.UnknownPeer, "wake.allow", client.WakeAllowParams{Peer: "planner"})
	owner.refused(kinds.UnknownPeer, "wake.allow", client.WakeAllowParams{})
	owner.refused(kinds.Invalid, "wake.allow", client.WakeAllowParams{Peer: "desk", Kinds: []string{"ping"}})
	owner.refused(kinds.Invalid, "wake.allow", client.WakeAllowParams{Peer: "desk", Agent: "a/b"})
	owner.refused(kinds.NotFound, "wake.revoke", client.WakeRevokeParams{Peer: "desk"})
	laptop.allow(client.WakeAllowParams{Peer: "desk", Kinds: []string{"query", "notify"}, Unattended: true})
	laptop.allow(client.WakeAllowParams{Peer: "desk", Kinds: []string{"query"}, Ask: true})
	laptop.allow(client.WakeAllowParams{Peer: "desk", Agent: "claude"})
	list := func() (all []string) {
		var rules client.WakeRules
		laptop.dial().must("wake.list", nil, &rules)
		for _, r := range rules.Rules {
			all = append(all, fmt.Sprintf("%s/%s %s ask=%v unattended=%v", r.Name, r.Agent, r.Kind, r.Ask, r.Unattended))
		}
		return all
	}
	want := []string{
		"desk/ notify ask=false unattended=true", "desk/ query ask=true unattended=false",
		"desk/claude query ask=false unattended=false", "desk/claude delegate ask=false unattended=false", "desk/claude notify ask=false unattended=false",
		"desk/claude result ask=false unattended=false", "desk/claude error ask=false unattended=false",
	}
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("rules:\n%s", strings.Join(got, "\n"))
	}
	laptop.stop()
	laptop = start(t, dir, "laptop")
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("after a restart:\n%s", strings.Join(got, "\n"))
	}
	var gone client.Revoked
	laptop.dial().must("wake.revoke", client.WakeRevokeParams{Peer: "desk", Agent: "claude", Kinds: []string{"result", "error"}}, &gone)
	laptop.dial().must("wake.revoke", client.WakeRevokeParams{Peer: "desk", Kinds: []string{"query"}}, nil)
	if got := list(); gone.Revoked != 2 || len(got) != 3 {
		t.Errorf("%d revoked, %q are left", gone.Revoked, got)
	}
}

// What follows from a message that a session was shown long after it came is no new chain.
func TestHopsOfWhatWasShownLate(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	s := laptop.session("claude")
	asker := desk.dial()
	r := asker.notify(s.notice("laptop"))
	s.next(false)
	laptop.repeats.ForgetPeer(desk.ID()) // as after 10 minutes, or a restart
	laptop.shownChains.forgetPeer(desk.ID())
	reply := client.NotifyParams{Head: client.Head{Parent: r.ID}, To: client.To("desk"), Payload: wire.Payload(`{"topic":"t"}`)}
	s.must("notify", reply, nil) // it lies in the inbox
	s.must("ack", client.AckParams{IDs: s.unread()}, nil)
	s.must("notify", reply, nil)
	laptop.shownChains.forgetPeer(desk.ID())
	s.refused(kinds.NotFound, "notify", reply)
	var in client.Inbox
	asker.must("inbox", nil, &in)
	if len(in.Messages) != 2 || in.Messages[0].Envelope.Hops != 1 || in.Messages[1].Envelope.Hops != 1 {
		t.Errorf("%+v", in.Messages)
	}
}

// Old notices of a peer that may wake nobody hide no other peer's from a session that comes back.
func TestOldNoticesHideNoOtherPeers(t *testing.T) {
	t.Parallel()
	laptop, noisy, desk := start(t, stateDir(t), "laptop"), start(t, stateDir(t), "noisy"), start(t, stateDir(t), "desk")
	befriend(t, laptop, noisy)
	befriend(t, laptop, desk)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	note := client.NotifyParams{To: client.To("laptop/claude"), Payload: wire.Payload(`{"topic":"t"}`)}
	before := laptop.session("claude")
	before.local.Close()
	await.Until(t, "the session to end", func() bool { return laptop.agents.FindByName("claude") == nil })
	for range maxRestored {
		noisy.dial().must("notify", note, nil)
	}
	desk.dial().must("notify", note, nil)
	s := laptop.sessionWith(client.AttachParams{Name: "claude", Session: claude, Key: before.key})
	if in := await.Receive(t, "the session to be told", s.told); in.Name != "desk" || in.Wake == nil {
		t.Errorf("told of %+v", in)
	}
}
