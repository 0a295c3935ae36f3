package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

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
	given := get[client.DelegateAnswer](s, "delegate", client.DelegateParams{Head: client.Head{Parent: woke.ID}, To: "planner", Payload: task1("")})
	time.Sleep(300 * time.Millisecond) // a session is woken every 250 ms at most
	worker.must("result", client.ResultParams{Ref: given.ID, Payload: completed("done")}, nil)
	answered := s.next(true)
	state := laptop.sessions.Waker.Describe("claude")
	if state.Day != 2 || len(state.By) != 1 || state.By[0].Peer != desk.ID() {
		t.Errorf("turns: %+v", state)
	}
	for range 50 { // what is not sent is not counted
		s.refused(kinds.Invalid, "notify", client.NotifyParams{Head: client.Head{Parent: woke.ID}, To: client.To("planner"), Payload: wire.Payload(`{"topic":""}`)})
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
	status := get[client.Status](laptop.dial(), "status", nil)
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
	laptop.awaitLeft("claude")
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

// wokenBy returns the row of a peer among those that have woken the session claude.
func (d *running) wokenBy(peer string) client.WokenBy {
	d.t.Helper()
	all := get[client.Agents](d.dial(), "agents", nil)
	for _, a := range all.Agents {
		if i := slices.IndexFunc(a.Woken.By, func(by client.WokenBy) bool { return by.Name == peer }); a.Name == "claude" && i >= 0 {
			return a.Woken.By[i]
		}
	}
	return client.WokenBy{}
}

// A peer that may wake sessions hears that the turns which it may cause are used up, and when there are
// some again; the owner hears of it too, and how to give more.
// holds: security.md#agents-on-this-machine
func TestUsedUpTurnsAreToldOf(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner := start(t, stateDir(t), "planner")
	befriend(t, planner, laptop)
	laptop.configure("agents: {claude: {turns: {hour: 4}}}")
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	events := laptop.subscribe(client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventBudget}}})
	warns := func() bool {
		return slices.ContainsFunc(laptop.listWarnings(), func(w string) bool {
			return strings.HasPrefix(w, "budget: woken turns of claude: 4 an hour, half of them by one peer: what desk sends waits in the inbox of claude, until 2") &&
				strings.HasSuffix(w, " (acpctl agents shows who woke it; more: turns of agents in config.yaml)")
		})
	}
	s := laptop.session("claude")
	asker := desk.dial()
	ask := client.QueryParams{To: "laptop", Payload: query("?")}
	answered := func() {
		t.Helper()
		answer := asker.query("laptop")
		s.nextRequest()
		s.release <- wire.Payload(`{"summary":"x"}`)
		await.Receive(t, "the answer", answer)
	}
	answered()
	answered()
	if by := laptop.wokenBy("desk"); !by.UsedUpUntil.IsZero() || by.Hour != 2 || warns() {
		t.Errorf("before anything is refused: %+v", by)
	}
	e := asker.refused(kinds.Overloaded, "query", ask)
	left := time.Duration(e.RetryAfterMS) * time.Millisecond
	if left < 59*time.Minute || left > time.Hour || left%time.Minute != 0 ||
		e.Message != `the turns that you may cause there are used up: try again in `+kinds.FormatDuration(left)+`, or name a session, such as "claude", which reads it at its next turn` {
		t.Errorf("after %v: %v", left, e)
	}
	if told := await.Receive(t, "event", events); told.Name != "desk" || !strings.Contains(string(told.Details), `"until":"2`) {
		t.Errorf("the event is %s", told.Details)
	}
	if by := laptop.wokenBy("desk"); !warns() || time.Until(by.UsedUpUntil.Time) < 59*time.Minute {
		t.Errorf("the owner hears %q, and of %+v", laptop.listWarnings(), by)
	}
	asker.refused(kinds.Overloaded, "delegate", client.DelegateParams{To: "laptop", Payload: task1("")})

	// Who may not wake a session hears nothing of it, and who may not discover no name.
	if e := planner.dial().refused(kinds.NoAgent, "query", ask); strings.Contains(e.Message, "used up") || !strings.HasSuffix(e.Message, "or its owner lets a query of yours wake it by typing there, with your name there as PEER: acpctl wake allow PEER --kinds query") {
		t.Error(e)
	}
	laptop.configure("{agents: {claude: {turns: {hour: 4}}}, policy: {desk: {kinds: [query]}}}")
	if e := asker.refused(kinds.Overloaded, "query", ask); strings.Contains(e.Message, "claude") || !strings.Contains(e.Message, "used up: try again in") {
		t.Error(e)
	}
	laptop.configure("agents: {claude: {turns: {hour: 40}}}")
	if by := laptop.wokenBy("desk"); warns() || !by.UsedUpUntil.IsZero() {
		t.Errorf("with more turns, the owner hears %q, and of %+v", laptop.listWarnings(), by)
	}
	answered()
}

// A session may come back as often as it likes: what lies in its inbox is listed by one at a time.
func TestSessionsThatComeBackListTheInboxOneByOne(t *testing.T) {
	d := start(t, stateDir(t), "desk")
	s := d.session("claude")
	const readers = 4 // at a time
	reading, free := make(chan int, readers), make(chan struct{})
	defer close(free)
	for i := range readers {
		go d.store.Read(t.Context(), func(*store.Tx) error { reading <- i; <-free; return nil })
		await.Receive(t, "a reader", reading)
	}
	attach := func() {
		s.must("attach", client.AttachParams{Name: "claude", Session: claude, MaxConcurrent: 16, Key: s.key}, nil)
	}
	count := func(function string) int {
		stacks := make([]byte, 16<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), function+"(")
	}
	attach()
	await.Until(t, "the inbox is listed", func() bool { return count(").ListKeys") > 0 })
	const times = 50 // from now on, each waits for the first
	for range times {
		attach()
	}
	await.Until(t, "the others have come", func() bool { return count(").WakeRestored") > times })
	if n := count(").ListKeys"); n > 1 {
		t.Errorf("the inbox is listed %d times at once", n)
	}
}

// The owner's command starts when a message begins to wait for his yes, and when one did not wake its
// session because a person is needed there. Nothing in it is of the peer's choice.
// holds: security.md#agents-on-this-machine
func TestTheOwnerIsNotified(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, event string
		ask         bool
	}{{"it waits", "approval", true}, {"a person is needed", "needs-person", false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			desk, laptop := pair(t)
			dir := t.TempDir()
			script, told := filepath.Join(dir, "script"), filepath.Join(dir, "told")
			if err := os.WriteFile(script, []byte("#!/bin/sh\necho $ACP_EVENT,$ACP_NUMBER,$ACP_PEER,$ACP_AGENT,$ACP_KIND >$1.new; mv $1.new $1\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			laptop.guest(nil).refused(kinds.NotAuthorized, "wake.notify", client.OwnerNotifyParams{Set: true, Command: []string{"true"}})
			laptop.dial().refused(kinds.Invalid, "wake.notify", client.OwnerNotifyParams{Set: true, Command: []string{"notify me"}})
			set := get[client.OwnerNotify](laptop.dial(), "wake.notify", client.OwnerNotifyParams{Set: true, Command: []string{script, told}})
			if !slices.Equal(set.Command, []string{script, told}) || set.Source != "wake.yaml" {
				t.Errorf("%+v", set)
			}
			laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: c.ask})
			s := laptop.session("claude")
			s.says(func(*client.Inbound) client.WakeAnswer {
				return client.WakeAnswer{Refused: "the session is unattended", NeedsPerson: true}
			})
			desk.dial().notify(s.notice("laptop"))
			s.next(!c.ask)
			number := ""
			if c.ask {
				number = laptop.nextApproval().ID
			}
			await.Until(t, "the owner is told", func() bool { _, err := os.Stat(told); return err == nil })
			if got, want := readText(t, told), c.event+","+number+",desk,claude,notify\n"; got != want {
				t.Errorf("told %q, want %q", got, want)
			}
			laptop.dial().must("wake.notify", client.OwnerNotifyParams{Set: true}, &set)
			if len(set.Command) != 0 || set.Source != "" {
				t.Errorf("%+v", set)
			}
		})
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
