package waking

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// What is said of one session goes before what is said of every session, wherever it is said.
func TestTheRuleOfTheNameGoesFirst(t *testing.T) {
	p := play(t, t.TempDir())
	set := config.Agent{Wake: map[string]config.Wake{desk.String(): {Ask: true}}, Answers: config.AnswersOff}
	p.Agents = func() *config.Agents { return &config.Agents{Named: map[string]config.Agent{"claude": set}} }
	check := func(what, agent string, asks, answers bool) {
		t.Helper()
		rule, ok := p.findPermission(agent, identity.Peer{ID: desk, Name: "desk"}, kinds.KindNotify)
		if !ok || rule.Ask != asks {
			t.Errorf("%s: the permission for %s is %+v, %v", what, agent, rule, ok)
		}
		if _, on := p.FindAnswers(agent); on != answers {
			t.Errorf("%s: answers wake %s: %v", what, agent, on)
		}
	}
	p.permit(desk) // for every session
	if err := p.Rules.SetAnswers(AnswersRule{}, true); err != nil {
		t.Fatal(err)
	}
	check("config.yaml", "claude", true, false)
	check("config.yaml", "codex", false, true)
	set.Answers = ""
	check("config.yaml without answers", "claude", true, true)
	set.Answers = config.AnswersOff
	own := allowed(desk, kinds.KindNotify)
	own.Agent = "claude"
	p.allow(own)
	if err := p.Rules.SetAnswers(AnswersRule{Agent: "claude"}, true); err != nil {
		t.Fatal(err)
	}
	check("wake.yaml", "claude", false, true)
}

// A message has woken its session for a day, also if nothing has woken it since.
func TestHasWokenForADay(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk)
		m, _ := p.notify(desk)
		p.Release("claude", desk, m.ID)
		time.Sleep(day - time.Nanosecond)
		if !p.HasWoken(m) || p.request(m) {
			t.Error("it may wake the session again within a day")
		}
		time.Sleep(time.Nanosecond)
		if p.HasWoken(m) || !p.request(m) {
			t.Error("it has woken the session for more than a day")
		}
	})
}

// Who may wake a session at once, and with which grant: by rules, settings and answers together.
func TestWhatMayWake(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		var set config.Agent
		var wakers []identity.ID
		p.Agents = func() *config.Agents { return &config.Agents{Named: map[string]config.Agent{"claude": set}} }
		p.Wakers = func(string) []identity.ID { return wakers }
		check := func(when string, any, now bool, grant *client.WakeGrant) {
			t.Helper()
			m := Message{Agent: "claude", Peer: identity.Peer{ID: desk}, Kind: kinds.KindResult, ID: wire.NewMessageID(), Delegation: wire.NewMessageID()}
			if got := p.MayAnyWake("claude"); got != any {
				t.Errorf("%s: anything may wake it: %v", when, got)
			}
			if got := p.MayWake("claude", m.Peer, m.Kind); got != now {
				t.Errorf("%s: desk may wake it now: %v", when, got)
			}
			got := p.Request(t.Context(), m, func(context.Context, client.WakeGrant) Outcome { return Outcome{Posted: true} })
			if (got == nil) != (grant == nil) || got != nil && *got != *grant {
				t.Errorf("%s: the grant is %+v", when, got)
			}
			p.Release("claude", desk, m.ID)
			time.Sleep(time.Second)
		}
		attended, unattended := &client.WakeGrant{}, &client.WakeGrant{Unattended: true}
		check("nothing is allowed", false, false, nil)
		set.Answers = config.AnswersOn
		check("answers", true, false, attended)
		set.Answers = config.AnswersUnattended
		check("answers, also unattended", true, false, unattended)
		set.Answers = ""
		set.Wake, wakers = map[string]config.Wake{desk.String(): {Unattended: true}}, []identity.ID{desk}
		check("config.yaml", true, true, unattended)
		set.Answers = config.AnswersOn
		check("config.yaml, and answers", true, true, unattended)
		p.mute(time.Minute)
		check("muted", true, false, nil)
		if p.Describe("claude").Waiting != 0 {
			t.Error("a message for a muted session waits to wake it")
		}
		time.Sleep(time.Minute)
		set = config.Agent{Wake: map[string]config.Wake{desk.String(): {Ask: true, Unattended: true}}}
		check("after an approval", true, false, nil)
		var posted []client.WakeGrant
		m := Message{Agent: "claude", Peer: identity.Peer{ID: desk}, Kind: kinds.KindNotify, ID: wire.NewMessageID()}
		p.Enqueue(m, func(_ context.Context, grant client.WakeGrant) Outcome {
			posted = append(posted, grant)
			return Outcome{Posted: true}
		}, nil)
		p.decide(p.Approvals()[0].ID, Yes)
		if synctest.Wait(); len(posted) != 1 || posted[0] != *unattended {
			t.Errorf("the owner's yes gives %+v", posted)
		}
	})
}

// A message that nothing allows asks nobody. One that waits is not taken up twice, and none goes
// before it. Nothing wakes a session that says so.
func TestWhatIsTakenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk, laptop)
		if _, now := p.notify(planner); now || len(p.told()) != 0 || len(p.Approvals()) != 0 {
			t.Errorf("what nothing allows: woken %v, told %+v", now, p.told())
		}
		first, _ := p.notify(desk)
		second, _ := p.notify(desk)
		p.request(second)
		p.request(first)
		if n := p.Describe("claude").Waiting; n != 1 {
			t.Errorf("%d wait", n)
		}
		p.Release("claude", laptop, first.ID)
		p.Release("claude", desk, wire.NewMessageID())
		time.Sleep(busyFor / 2)
		p.expectLater("after the end of another message")
		p.Acknowledge("claude", desk, first.ID)
		if _, now := p.notify(desk); now {
			t.Error("a message goes before one that waits")
		}
		p.expectLater("after its end", second)
		p.Attach("codex", true)
		other := second
		other.Agent = "codex"
		if time.Sleep(time.Hour); p.request(other) || p.Describe("codex").Waiting != 0 {
			t.Error("a session that nothing can wake is woken")
		}
	})
}
