package waking

import (
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// What waits for the owner may not be asked about where there is no place for it.
func TestStandings(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
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
		p.Attach("claude", true)
		expect("nothing can wake the session", KeptBack)
		p.Attach("claude", false)
		for range 1 + maxWaiting/2 {
			expect("it has a place", Ready)
			p.notify(desk)
		}
		expect("as many wait to wake the session as may", KeptBack)
		p.Attach("codex", false)
		m.Agent = "codex"
		expect("at another session", Ready)
		m.Agent, m.Peer.ID = "claude", laptop
		p.permit(laptop)
		expect("another peer", Ready)
		m.Peer.ID = desk
		p.Attach("claude", true) // which forgets what waits
		p.Attach("claude", false)
		p.hold(10, charge{cause: desk, peer: desk, at: time.Now()}, "claude")
		expect("used up", UsedUp)
		p.mute(time.Hour)
		expect("muted", KeptBack)
	})
}
