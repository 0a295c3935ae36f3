package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// A trusted peer that may wake a session and does nothing else causes half of the turns at most,
// and keeps nobody else from waking it. Its owner hears of it, and a restart forgets nothing.
// holds: security.md#what-untrust-does-and-what-it-does-not-undo
// holds: security.md#agents-on-this-machine
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
	flood := func(l *program, n int) (handed int) {
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

// What a session sends in a turn that a peer has woken counts against that peer, and so does the
// turn that the answer begins.
// holds: security.md#agents-on-this-machine
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
	time.Sleep(300 * time.Millisecond) // a session is woken every 250 ms at most
	worker.must("result", client.ResultParams{Ref: given.ID, Payload: completed("done")}, nil)
	answered := s.next(true)
	state := laptop.sessions.Waker.Describe("claude")
	if state.Day != 2 || len(state.By) != 1 || state.By[0].Peer != desk.ID() {
		t.Errorf("turns: %+v", state)
	}
	for i := range 250 { // of 500 a day, 100 an hour, half
		p := client.NotifyParams{Head: client.Head{Parent: []wire.MessageID{woke.ID, answered.ID}[i%2]}, To: client.To("planner"), Payload: wire.Payload(`{"topic":"t"}`)}
		err := s.call("notify", p, nil)
		if i < 49 && err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if e, ok := errors.AsType[*kinds.Error](err); i >= 49 && (!ok || e.Reason() != kinds.ReasonShareUsed || !strings.Contains(e.Message, "desk has woken this session")) {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	s.must("notify", client.NotifyParams{To: client.To("planner"), Payload: wire.Payload(`{"topic":"t"}`)}, nil) // the user's own
}

// The owner hears once, and sees in the status, that a session goes on in a chain of messages that
// is too long.
func TestTheOwnerHearsOfALoop(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	events := laptop.subscribe(client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventBudget, client.EventTrust}}})
	s := laptop.session("claude")
	last := wire.NewEnvelope(desk.ID(), laptop.ID(), kinds.KindNotify, wire.Payload(`{"topic":"t"}`))
	last.Agent, last.Hops = "claude", wire.MaxHops
	if _, err := desk.send(last); err != nil {
		t.Fatal(err)
	}
	head := client.Head{Parent: last.ID}
	for range 5 {
		s.refused(kinds.LoopDetected, "notify", client.NotifyParams{Head: head, To: client.To("desk"), Payload: wire.Payload(`{"topic":"t"}`)})
		s.refused(kinds.LoopDetected, "query", client.QueryParams{Head: head, To: "desk", Payload: query("?")})
		s.refused(kinds.LoopDetected, "delegate", client.DelegateParams{Head: head, To: "desk", Payload: task1("")})
	}
	e := await.Receive(t, "event", events)
	if e.Type != client.EventBudget || e.Peer != desk.ID() || !strings.Contains(string(e.Details), `"agent":"claude"`) || !strings.Contains(string(e.Details), "the limit is 16") {
		t.Errorf("the event is %s %+v", e.Details, e)
	}
	var status client.Status
	laptop.dial().must("status", nil, &status)
	if !slices.ContainsFunc(status.Warnings, func(w string) bool { return strings.Contains(w, "the limit is 16") && strings.Contains(w, "claude") }) {
		t.Errorf("the status says %q", status.Warnings)
	}
	laptop.dial().must("trust", client.TrustParams{Peer: desk.ID().String(), Name: "table"}, nil)
	if e := await.Receive(t, "event", events); e.Type != client.EventTrust {
		t.Errorf("a second event: %s %+v", e.Details, e)
	}
}

// A turn that certainly never began is given back; one that may have begun counts.
// holds: security.md#agents-on-this-machine
func TestTurnsThatNeverBeginDoNotCount(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s := laptop.session("claude")
	asker := desk.dial()
	turns := func() int {
		if n := laptop.sessions.Waker.Describe("claude").Day; n != laptop.rows("daemon_turn") {
			t.Errorf("%d turns count, %d are on disk", n, laptop.rows("daemon_turn"))
		}
		return laptop.sessions.Waker.Describe("claude").Day
	}
	pause := func() { time.Sleep(300 * time.Millisecond) } // between two wakes

	// The session is busy, and its program gives the pointer up when the message is read or withdrawn.
	r := asker.notify(s.notice("laptop"))
	s.next(true)
	s.must("ack", client.AckParams{IDs: s.unread()}, nil)
	if turns() != 1 {
		t.Error("a turn that may begin does not count")
	}
	other := client.UnpostedParams{Peer: laptop.ID(), ID: r.ID}
	s.must("unposted", other, nil)
	if turns() != 1 {
		t.Error("another peer's turn was given back")
	}
	laptop.guest(nil).refused(kinds.NotAuthorized, "unposted", other)
	other.Peer = desk.ID()
	s.must("unposted", other, nil)
	s.must("unposted", other, nil)
	if turns() != 0 {
		t.Error("a turn that was none counts")
	}
	pause()
	asker.refused(kinds.Timeout, "query", client.QueryParams{To: "laptop/claude", Payload: wire.Payload(`{"question":"?","deadline_ms":2000}`)})
	s.must("unposted", client.UnpostedParams{Peer: desk.ID(), ID: s.nextRequest().ID}, nil)
	if turns() != 0 {
		t.Error("a query that was withdrawn before its turn counts")
	}

	// The program refuses, or does not say.
	pause()
	s.says(func(*client.Inbound) client.WakeAnswer { return client.WakeAnswer{} })
	asker.notify(s.notice("laptop"))
	if s.next(true); turns() != 0 {
		t.Error("a refusal counts")
	}
	pause()
	over := make(chan struct{})
	defer close(over)
	s.says(func(*client.Inbound) client.WakeAnswer { <-over; return client.WakeAnswer{Posted: true} })
	asker.notify(s.notice("laptop"))
	if turns() != 1 {
		t.Error("a wake without an answer does not count")
	}
}

// A query counts as a turn only if the session's program was given a pointer to it, or may have
// been: the session has the query all the same.
// holds: security.md#agents-on-this-machine
func TestAQueryCountsIfItIsPosted(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s := laptop.session("claude")
	counts := func(what string, n int) {
		t.Helper()
		await.Until(t, what, func() bool {
			return laptop.sessions.Waker.Describe("claude").Day == n && laptop.rows("daemon_turn") == n
		})
	}
	for _, test := range []struct {
		posted bool
		turns  int
	}{{false, 0}, {true, 1}} {
		said := make(chan struct{}, 9)
		s.says(func(*client.Inbound) client.WakeAnswer {
			said <- struct{}{}
			return client.WakeAnswer{Posted: test.posted}
		})
		answer := desk.dial().query("laptop/claude")
		s.nextRequest()
		await.Receive(t, "the end of the wake", said)
		counts(fmt.Sprintf("%d turns while it waits", test.turns), test.turns)
		s.release <- wire.Payload(`{"summary":"x"}`)
		await.Receive(t, "the answer", answer)
		time.Sleep(300 * time.Millisecond) // the pause between two wakes
	}

	// It is over before the turn is written.
	writing, release := make(chan struct{}), make(chan struct{})
	go laptop.store.Write(t.Context(), false, func(*store.Tx) error { close(writing); <-release; return nil })
	await.Receive(t, "the store to be busy", writing)
	over := client.Head{ID: wire.NewMessageID()}
	desk.dial().refused(kinds.Timeout, "query", client.QueryParams{Head: over, To: "laptop/claude", Payload: wire.Payload(`{"question":"?","deadline_ms":1000}`)})
	await.Until(t, "the query is over here too", func() bool { return laptop.known.FindDeadline(over.ID).IsZero() })
	close(release)
	s.next(false)
	counts("no turn for what is over", 1)
	if len(s.told) > 0 {
		t.Error("woken for what is over")
	}

	// A session that knows no wake.
	s.Close()
	await.Until(t, "the session has ended", func() bool { return laptop.agents.FindByName("claude") == nil })
	asked := make(chan string, 9)
	laptop.guestAgent(client.AttachParams{Name: "claude", Session: claude}, func(ctx context.Context, r *jsonrpc.Request) {
		asked <- r.Method
		if r.Method != client.MethodQuery {
			r.RespondError(jsonrpc.NewMethodNotFound(r.Method))
			return
		}
		<-ctx.Done()
	})
	desk.dial().refused(kinds.Timeout, "query", client.QueryParams{To: "laptop/claude", Payload: wire.Payload(`{"question":"?","deadline_ms":2000}`)})
	if a, b := await.Receive(t, "a call", asked), await.Receive(t, "a call", asked); a == b {
		t.Errorf("%s twice", a)
	}
	counts("no turn of a session without wake", 1)
}
