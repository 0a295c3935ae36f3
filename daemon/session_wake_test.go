package daemon

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// A message for a session is on disk before the session is told of it, and a wake is no receipt:
// handed is what the session acknowledges in time, or what its program has proved.
// holds: security.md#agents-on-this-machine
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
	if s.next(false); time.Since(before) > registry.ConfirmTime {
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
	time.Sleep(300 * time.Millisecond) // a session is woken every 250 ms at most
	if r := asker.notify(s.notice("laptop")); r.State != client.Handed || held() != 0 {
		t.Errorf("proven: %+v, %d held", r, held())
	}
	s.next(true)

	// A program that has no session answers at all.
	s.says(func(in *client.Inbound) client.WakeAnswer { s.Close(); return client.WakeAnswer{Posted: true} })
	time.Sleep(300 * time.Millisecond) // a session is woken every 250 ms at most
	before = time.Now()
	if r := asker.notify(s.notice("laptop")); r.State != client.Held || held() != 1 {
		t.Errorf("the session ended: %+v, %d held", r, held())
	}
	if time.Since(before) > registry.ConfirmTime {
		t.Error("the sender waits for a session that has ended")
	}
}

// A session that is busy answers a wake when the turn before has ended. Until then its sender is not kept
// waiting, and the new turn is charged.
func TestABusySessionAnswersWhenItsTurnHasEnded(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s := laptop.session("claude")
	asker := desk.dial()
	turns := func() int { return laptop.sessions.Waker.Describe("claude").Day }
	for _, end := range []struct {
		answer      client.WakeAnswer
		turns, held int
	}{{client.WakeAnswer{}, 0, 1}, {client.WakeAnswer{Posted: true, Proven: true}, 1, 1}} {
		ended := make(chan client.WakeAnswer)
		s.says(func(*client.Inbound) client.WakeAnswer { return <-ended })
		if r := asker.notify(s.notice("laptop")); r.State != client.Held || turns() != 1 {
			t.Errorf("while the session is busy: %+v, %d turns", r, turns())
		}
		ended <- end.answer
		s.next(true)
		await.Until(t, "the daemon knows what became of the wake", func() bool { return turns() == end.turns && laptop.rows("daemon_inbox") == end.held })
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
		got := get[client.Receipt](worker, "result", client.ResultParams{Ref: given.ID, Payload: payload})
		return got
	}
	given := delegateTo(s.program, "laptop", task1(""))
	reports(given, completed("off"))
	s.next(false)
	desk.dial().must("wake.answers", client.WakeAnswersParams{On: true, Agent: "claude", Unattended: true}, nil)
	given = delegateTo(s.program, "laptop", task1(""))
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
	agents := get[client.Agents](desk.dial(), "agents", nil)
	if w := agents.Agents[0].Woken; w == nil || w.Day != 1 || len(w.By) != 1 || w.By[0].Name != "laptop" {
		t.Errorf("woken: %+v", w)
	}
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
	laptop.awaitLeft("claude")
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

// Nothing wakes a session that is muted. Who names no attached agent hears which one may be meant.
func TestAMutedSessionIsNotWoken(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s := laptop.session("claude")
	asker, owner := desk.dial(), laptop.dial()
	owner.must("agents.mute", client.MuteAgentParams{Name: "claude", Secs: 3600}, nil)
	if r := asker.notify(s.notice("laptop")); r.State != client.Held {
		t.Errorf("%+v", r)
	}
	s.next(false)
	var state client.SessionState
	if s.must("session", nil, &state); len(state.Notices) != 1 || !strings.Contains(state.Notices[0], "muted") {
		t.Errorf("%+v", state)
	}
	owner.must("agents.mute", client.MuteAgentParams{Name: "claude"}, nil)
	asker.notify(s.notice("laptop"))
	s.next(true)
	for method, params := range map[string]any{"agents.mute": client.MuteAgentParams{Name: "nobody", Secs: 1}, "wake.test": client.WakeTestParams{Agent: "nobody"}} {
		const with, without = `no agent "nobody" is attached: acpctl agents lists those that are`, `no agent "nobody" is attached: start a program that acpctl setup has connected`
		if e := owner.refused(kinds.NoAgent, method, params); !strings.HasSuffix(e.Message, with) {
			t.Error(e)
		}
		if e := desk.dial().refused(kinds.NoAgent, method, params); !strings.HasSuffix(e.Message, without) {
			t.Error(e)
		}
	}
	if e := owner.refused(kinds.NoAgent, "agents.mute", client.MuteAgentParams{Name: "cluade", Secs: 1}); !strings.HasSuffix(e.Message, ": did you mean claude?") {
		t.Error(e)
	}
	for _, bad := range []client.MuteAgentParams{{Name: "claude", Secs: 1 << 40}, {}, {Name: "nobody"}} {
		if err := owner.call("agents.mute", bad, nil); err == nil {
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
		if i == 0 {
			s.nextRequest()
		} else {
			s.next(false)
		}
	}
	s.release <- wire.Payload(accepted)
	asker.must("cancel", client.CancelParams{Ref: given[1].ID}, nil)
	s.next(false)
	if n := laptop.sessions.Waker.Describe("claude").Waiting; n != 1 {
		t.Errorf("%d wait", n)
	}
	s.must("result", client.ResultParams{Ref: given[0].ID, Payload: completed("done")}, nil)
	if in := s.next(true); in.ID != given[2].ID {
		t.Errorf("woken for %s, want %s", in.ID, given[2].ID)
	}
}

// A notice that refers to what a session has delegated is no answer to it.
// holds: security.md#agents-on-this-machine
func TestANoticeIsNoAnswer(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.agent(client.AttachParams{Name: "welder"}, say(accepted))
	desk.dial().must("wake.answers", client.WakeAnswersParams{On: true}, nil)
	s := desk.session("claude")
	given := delegateTo(s.program, "laptop", task1(""))
	note := wire.NewEnvelope(laptop.ID(), desk.ID(), kinds.KindNotify, wire.Payload(`{"topic":"t"}`))
	note.Ref, note.Agent = &given.ID, "claude"
	if _, err := laptop.send(note); err != nil {
		t.Fatal(err)
	}
	s.next(false)
}

// A session that its program says nothing can wake is not woken, whatever the rules say: its owner is
// asked nothing, peers hear that it answers when it is active, and the owner reads why.
func TestAnUnwakeableSession(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	why := "it has no folder ~/.codex here"
	s := laptop.sessionWith(client.AttachParams{Name: "codex", Session: &client.SessionInfo{Harness: "codex", Version: "0.169.0", Unwakeable: why}})
	warned := func() bool { return slices.Contains(laptop.listWarnings(), "codex cannot be woken: "+why) }
	if warned() {
		t.Error("the owner hears it where nobody may wake it")
	}
	asker := desk.dial()
	for _, ask := range []bool{false, true} {
		laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: ask})
		asker.notify(s.notice("laptop"))
		s.next(false)
		s.release <- wire.Payload(`{"summary":"later"}`)
		asker.must("query", client.QueryParams{To: "laptop/codex", Payload: query("?")}, nil)
		s.next(false)
		s.release <- wire.Payload(accepted)
		delegateTo(asker, "laptop/codex", task1(""))
		s.next(false)
		if n := len(laptop.sessions.Waker.Approvals()); n > 0 || !warned() {
			t.Errorf("ask %v: %d approvals, the owner is told: %v", ask, n, warned())
		}
		if e := asker.refused(kinds.NoAgent, "query", client.QueryParams{To: "laptop", Payload: query("?")}); !strings.Contains(e.Message, `name a session, such as "codex"`) || strings.Contains(e.Message, "wake allow") {
			t.Errorf("the asker hears %v", e)
		}
	}
	if n := laptop.sessions.Waker.Describe("codex").Day; n > 0 {
		t.Errorf("%d turns", n)
	}
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	found := get[client.Answer](asker, "discover", client.DiscoverParams{To: "laptop", Fresh: true})
	if c := parse[kinds.Capabilities](t, found.Payload); !slices.Equal(c.Sessions, []string{"codex"}) {
		t.Errorf("peers hear %+v", c)
	}
	var agents client.Agents
	if laptop.dial().must("agents", nil, &agents); agents.Agents[0].Session.Unwakeable != why {
		t.Errorf("%+v", agents.Agents[0].Session)
	}
	for _, bad := range []string{"one\ntwo", strings.Repeat("x", client.MaxReason+1)} {
		laptop.guest(nil).refused(kinds.Invalid, "attach", client.AttachParams{Name: "x", Session: &client.SessionInfo{Harness: "codex", Unwakeable: bad}})
	}
}

// A session whose program refuses to be woken answers when it is active, although the rules let it be
// woken: a question that names no agent does not wait for it in vain, and the owner reads why.
func TestASessionThatRefusesToBeWoken(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s := laptop.session("claude")
	const why = "the session is unattended"
	s.says(func(*client.Inbound) client.WakeAnswer { return client.WakeAnswer{Refused: why + "\n\x1b[1m"} })
	asker := desk.dial()
	asker.notify(s.notice("laptop"))
	s.next(true)
	state := func() *client.Woken {
		agents := get[client.Agents](laptop.dial(), "agents", nil)
		return agents.Agents[0].Woken
	}
	await.Until(t, "the daemon knows of the refusal", func() bool { return state().Refused != "" })
	if w := state(); !strings.HasPrefix(w.Refused, why) || strings.ContainsAny(w.Refused, "\n\x1b") || w.Day != 0 {
		t.Errorf("%+v", w)
	}
	if warnings := laptop.listWarnings(); !slices.ContainsFunc(warnings, func(w string) bool { return strings.HasPrefix(w, "claude was not woken: "+why) }) {
		t.Errorf("the owner reads %q", warnings)
	}
	asker.refused(kinds.NoAgent, "query", client.QueryParams{To: "laptop", Payload: query("?")})
	found := get[client.Answer](asker, "discover", client.DiscoverParams{To: "laptop", Fresh: true})
	if c := parse[kinds.Capabilities](t, found.Payload); !slices.Equal(c.Sessions, []string{"claude"}) {
		t.Errorf("peers hear %+v", c)
	}

	s.says(func(*client.Inbound) client.WakeAnswer { return client.WakeAnswer{Posted: true} })
	asker.notify(s.notice("laptop"))
	s.woken()
	await.Until(t, "the daemon knows that it may be woken", func() bool { return state().Refused == "" })
	s.says(func(*client.Inbound) client.WakeAnswer {
		return client.WakeAnswer{Refused: strings.Repeat("x", client.MaxReason+1)}
	})
	s.must("ack", client.AckParams{IDs: s.unread()}, nil)
	asker.notify(s.notice("laptop"))
	s.woken()
	await.Until(t, "the daemon knows of a refusal at great length", func() bool { return strings.Contains(state().Refused, "great length") })
}

// A question for a session that cannot be woken yet waits, and wakes it when it can: what is so of a
// session is declared by attaching anew on its connection, and takes nothing out of its hands.
func TestASessionThatCanBeWokenLater(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	info := client.SessionInfo{Harness: "codex", Unwakeable: "its conversation has had no turn yet"}
	p := client.AttachParams{Name: "codex", Session: &info}
	s := laptop.sessionWith(p)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	asker := desk.dial()
	answers := asker.query("laptop/codex")
	s.next(false)
	asker.notify(s.notice("laptop"))
	s.next(false)
	p.Key, p.Session = s.key, &client.SessionInfo{Harness: "codex"}
	s.must("attach", p, nil)
	woken := make(map[string]bool)
	for range 2 {
		in := s.woken()
		woken[in.Kind] = true
		if in.Kind == kinds.KindQuery {
			s.release <- wire.Payload(`{"summary":"now"}`)
		} else {
			s.must("ack", client.AckParams{IDs: []wire.MessageID{in.ID}}, nil)
		}
	}
	await.Receive(t, "the answer", answers)
	if !woken[kinds.KindQuery] || !woken[kinds.KindNotify] {
		t.Errorf("woken for %v", woken)
	}
}

// The owner wakes a session that he has opened, with a line of his own, and reads what its program did.
func TestTheOwnerWakesASession(t *testing.T) {
	t.Parallel()
	_, laptop := pair(t)
	s := laptop.session("claude")
	laptop.guest(nil).refused(kinds.NotAuthorized, "wake.test", client.WakeTestParams{Agent: "claude"})
	laptop.dial().refused(kinds.NotAuthorized, "wake.test", client.WakeTestParams{Agent: "claude"})
	laptop.dial().refused(kinds.NoAgent, "wake.test", client.WakeTestParams{Agent: "claud"})
	laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: true})
	for _, said := range []client.WakeAnswer{{Posted: true}, {Refused: "the session is unattended"}} {
		s.says(func(in *client.Inbound) client.WakeAnswer {
			if in.Wake == nil || !in.Wake.Test || in.Wake.Unattended || in.From != laptop.ID() {
				t.Errorf("%+v, %+v", in, in.Wake)
			}
			return said
		})
		tested := get[client.WakeTested](laptop.dial(), "wake.test", client.WakeTestParams{Agent: "claude"})
		if want := (client.WakeTested{Agent: "claude", Posted: said.Posted, Refused: said.Refused}); tested != want {
			t.Errorf("%+v, want %+v", tested, want)
		}
		s.next(true)
	}
	if w := laptop.sessions.Waker.Describe("claude"); w.Day != 0 || laptop.rows("daemon_inbox") != 0 || len(laptop.sessions.Waker.Approvals()) != 0 {
		t.Errorf("%+v, %d held", w, laptop.rows("daemon_inbox"))
	}
}
