package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/sessions"
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
		var got client.Receipt
		worker.must("result", client.ResultParams{Ref: given.ID, Payload: payload}, &got)
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
	var agents client.Agents
	desk.dial().must("agents", nil, &agents)
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
	if first == nil || len(waiting) != 2 || laptop.sessions.Waker.Describe("claude").Waiting != 2 {
		t.Fatalf("%d wait, the first is %v", len(waiting), first)
	}
	s.unread()
	s.must("ack", client.AckParams{IDs: []wire.MessageID{first.ID}}, nil)
	next := s.next(true)
	laptop.dial().must("agents.mute", client.MuteAgentParams{Name: "claude", Secs: 3600}, nil)
	s.must("ack", client.AckParams{IDs: []wire.MessageID{next.ID}}, nil)
	await.Until(t, "nothing waits", func() bool { return laptop.sessions.Waker.Describe("claude").Waiting == 0 })
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
	for method, params := range map[string]any{"agents.mute": client.MuteAgentParams{Name: "nobody", Secs: 1}, "wake.test": client.WakeTestParams{Agent: "nobody"}} {
		const with, without = `no agent "nobody" is attached: acpctl agents lists those that are`, `no agent "nobody" is attached: start a program that acpctl setup has connected`
		if e := laptop.dial().refused(kinds.NoAgent, method, params); !strings.HasSuffix(e.Message, with) {
			t.Error(e)
		}
		if e := desk.dial().refused(kinds.NoAgent, method, params); !strings.HasSuffix(e.Message, without) {
			t.Error(e)
		}
	}
	asker.notify(s.notice("laptop"))
	s.next(true)
	for _, near := range []string{"cluade", "claude-code", "clau"} {
		if e := laptop.dial().refused(kinds.NoAgent, "agents.mute", client.MuteAgentParams{Name: near, Secs: 1}); !strings.HasSuffix(e.Message, ": did you mean claude?") {
			t.Error(e)
		}
	}
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

// Old notices of a peer that may wake nobody hide no other peer's from a session that comes back.
func TestOldNoticesHideNoOtherPeers(t *testing.T) {
	t.Parallel()
	laptop, noisy, desk := start(t, stateDir(t), "laptop"), start(t, stateDir(t), "noisy"), start(t, stateDir(t), "desk")
	befriend(t, laptop, noisy)
	befriend(t, laptop, desk)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	note := client.NotifyParams{To: client.To("laptop/claude"), Payload: wire.Payload(`{"topic":"t"}`)}
	before := laptop.session("claude")
	before.program.Close()
	await.Until(t, "the session to end", func() bool { return laptop.agents.FindByName("claude") == nil })
	for range sessions.MaxRestored {
		noisy.dial().must("notify", note, nil)
	}
	desk.dial().must("notify", note, nil)
	s := laptop.sessionWith(client.AttachParams{Name: "claude", Session: claude, Key: before.key})
	if in := await.Receive(t, "the session to be told", s.told); in.Name != "desk" || in.Wake == nil {
		t.Errorf("told of %+v", in)
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
