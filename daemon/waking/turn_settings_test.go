package waking

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// The settings bound the turns of a session, what is sent in them, and all sessions together. Turns that
// are used up are told of until there are some again, and more of them count at once.
func TestSettingsOfTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		settings := &config.Agents{Named: map[string]config.Agent{"claude": {Turns: config.Turns{Hour: 40}}, "*": {Turns: config.Turns{Hour: 4}}}}
		p.Config.Agents = func() *config.Agents { return settings }
		for _, c := range []struct {
			agent string
			sent  bool
			want  [4]int
		}{{"claude", false, [4]int{40, 200, 200, 1000}}, {"codex", true, [4]int{20, 100, 1000, 5000}}} {
			for i, in := range p.listWindows(&charge{agent: c.agent, sent: c.sent}) {
				if in.most != c.want[i] {
					t.Errorf("bound %d of %s, sent %v, is %d, want %d", i, c.agent, c.sent, in.most, c.want[i])
				}
			}
		}
		settings = &config.Agents{Named: map[string]config.Agent{"claude": {Turns: config.Turns{Hour: 4}}}}
		p.asks(laptop)
		p.permit(desk)
		begun := time.Now()
		if n := p.wake(desk, 5); n != 2 {
			t.Errorf("desk woke it %d times", n)
		}
		room := begun.Add(time.Hour)
		if by := p.Describe("claude").By; len(by) != 1 || !by[0].UsedUpUntil.Equal(room) {
			t.Errorf("used up until %v, want %v", by[0].UsedUpUntil, room)
		}
		if told := p.told(); len(told) != 1 || !told[0].Until.Equal(room) {
			t.Errorf("told %+v", told)
		}
		m := Message{Agent: "claude", Peer: identity.Peer{ID: desk}, Kind: kinds.KindNotify}
		if p.FindStanding(m) != UsedUp || !p.RecordUsedUp(m).Equal(room) || len(p.told()) != 1 {
			t.Errorf("standing %v, room at %v, told %+v", p.FindStanding(m), p.RecordUsedUp(m), p.told())
		}
		time.Sleep(time.Until(room) - 1)
		if len(p.Notices("claude")) != 1 {
			t.Errorf("before there is room the owner hears %q", p.Notices("claude"))
		}
		time.Sleep(time.Nanosecond)
		if by := p.Describe("claude").By; len(p.Notices("claude")) != 0 || !by[0].UsedUpUntil.IsZero() || p.FindStanding(m) != Ready {
			t.Errorf("when there is room the owner hears %q, and of %+v", p.Notices("claude"), by[0])
		}
	})
}

// An approved message that used up turns keep back goes on when the settings give more.
func TestMoreTurnsWakeAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		settings := new(config.Agents)
		p.Config.Agents = func() *config.Agents { return settings }
		p.asks(desk)
		p.permit(laptop)
		busy, _ := p.notify(laptop)
		m, _ := p.notify(desk)
		p.decide(p.asked()[0].ID, Yes)
		p.hold(10, charge{cause: desk, peer: desk, at: time.Now()}, "claude")
		p.Release("claude", laptop, busy.ID)
		time.Sleep(time.Second)
		synctest.Wait()
		if all := p.Approvals(); len(all) != 1 || all[0].KeptBy == "" || len(p.Notices("claude")) != 2 {
			t.Fatalf("%+v; the owner hears %q", all, p.Notices("claude"))
		}
		settings = &config.Agents{Named: map[string]config.Agent{"claude": {Turns: config.Turns{Hour: 40}}}}
		p.ReadSettings()
		if p.expectLater("with more turns", m); len(p.Notices("claude")) != 0 {
			t.Errorf("the owner hears %q", p.Notices("claude"))
		}
	})
}
