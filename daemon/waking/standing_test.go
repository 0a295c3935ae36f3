package waking

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// A peer that has used up its share may not wake the session now, so that a query that names no
// agent goes to another one. Nor may one of whose messages enough wait.
func TestMayWakeCountsWhatWasUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
		p.permit(desk, laptop)
		may := func(agent string, who identity.ID) bool {
			return p.MayWake(agent, identity.Peer{ID: who}, kinds.KindNotify)
		}
		if n := p.wake(desk, 20); n != 10 || may("claude", desk) || !may("claude", laptop) {
			t.Errorf("after %d turns: desk may %v, laptop %v", n, may("claude", desk), may("claude", laptop))
		}
		p.Attach("codex", false)
		if !may("codex", desk) {
			t.Error("the turns of one session count at another one")
		}
		p.Attach("codex", true)
		if may("codex", desk) {
			t.Error("a session that nothing can wake may be woken")
		}
		for range 1 + maxWaiting/2 {
			if !may("claude", laptop) {
				t.Error("it may not wake the session although it has a place")
			}
			p.notify(laptop)
		}
		if may("claude", laptop) {
			t.Error("it may wake the session although it has no place")
		}
	})
}

// What waits for the owner may not be asked about where there is no place for it.
func TestStandings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
		m := Message{Agent: "claude", Peer: identity.Peer{ID: desk}, Kind: kinds.KindNotify}
		expect := func(when string, want Standing) {
			t.Helper()
			if got := p.FindStanding(m); got != want {
				t.Errorf("%s: %d, want %d", when, got, want)
			}
		}
		expect("without a rule", Forbidden)
		p.asks(desk)
		expect("the owner is to be asked", Asks)
		for range maxApprovals / 2 {
			p.notify(desk)
		}
		expect("as many wait as may", KeptBack)
		p.permit(desk)
		expect("it may", Ready)
		p.hold(10, charge{cause: desk, peer: desk, at: time.Now()}, "claude")
		expect("used up", UsedUp)
		if err := p.Rules.Mute("claude", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		expect("muted", KeptBack)
	})
}
