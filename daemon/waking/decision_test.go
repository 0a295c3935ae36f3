package waking

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
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
	if err := p.Rules.Allow(own); err != nil {
		t.Fatal(err)
	}
	if err := p.Rules.SetAnswers(AnswersRule{Agent: "claude"}, true); err != nil {
		t.Fatal(err)
	}
	check("wake.yaml", "claude", false, true)
}

// A message has woken its session for a day, also if nothing has woken it since.
func TestHasWokenForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
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
