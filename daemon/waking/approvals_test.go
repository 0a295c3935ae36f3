package waking

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// An answer to what the owner saw in an earlier run of the daemon is for no message of this one.
func TestApprovalsOfAnEarlierRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		for range 2 {
			p := play(t, t.TempDir())
			p.asks(desk)
			p.notify(desk)
			id := p.Approvals()[0].ID
			for _, id := range seen {
				if !p.refuses(id, Always, kinds.NotFound) {
					t.Error("an old answer counts")
				}
			}
			seen = append(seen, id)
		}
	})
}

// What the owner is asked about ends with the rule that lets it ask, also when the owner has said
// yes and it waits for its turn.
func TestWhatIsRevokedAsksNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.asks(desk)
		first, _ := p.notify(desk)
		p.notify(desk)
		p.decide(p.Approvals()[0].ID, Yes)
		p.expectLater("after a yes", first)
		second := p.Approvals()[0].ID
		if p.Rules.Revoke(func(Permission) bool { return true }); len(p.Approvals()) != 0 || p.Describe("claude").Approvals != 0 || len(p.Notices("claude")) != 0 {
			t.Errorf("what was revoked still asks: %+v", p.Approvals())
		}
		if !p.refuses(second, Yes, kinds.NotFound) {
			t.Error("yes to what was revoked counts")
		}
		p.asks(laptop)
		p.notify(laptop)
		p.decide(p.Approvals()[0].ID, Yes) // the first message is not taken: this one waits
		p.Rules.Revoke(func(Permission) bool { return true })
		time.Sleep(time.Hour) // on the virtual clock
		p.expectLater("after the second yes was revoked", first)
	})
}

// The owner's yes is refused while the session is muted or a bound of turns is reached, and the
// message still waits. A no counts always.
// holds: security.md#agents-on-this-machine
func TestAYesThatCannotCountIsRefused(t *testing.T) {
	for code, keepBack := range map[kinds.Code]func(*played){
		kinds.Invalid:    func(p *played) { p.mute(time.Hour) },
		kinds.Overloaded: func(p *played) { p.hold(10, charge{cause: desk, peer: desk, at: time.Now()}, "claude") },
	} {
		inBubble(t, func(t *testing.T, p *played) {
			p.asks(desk)
			m, _ := p.notify(desk)
			p.notify(desk)
			keepBack(p)
			all := p.asked()
			for _, answer := range []Answer{Yes, Always} {
				if !p.refuses(all[0].ID, answer, code) {
					t.Errorf("%s counts where it should be %s", answer, code)
				}
			}
			p.decide(all[1].ID, No)
			time.Sleep(time.Hour) // on the virtual clock
			p.expectLater("before the yes")
			p.decide(all[0].ID, Yes)
			p.expectLater("after the yes", m)
		})
	}
}

// The owner's yes that the session has no place for is refused, and the message still waits.
// holds: security.md#agents-on-this-machine
func TestNoYesIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.asks(desk)
		const places = 1 + maxWaiting/2 // one is in the session
		for range places + 1 {
			p.notify(desk)
		}
		for range places {
			p.decide(p.asked()[0].ID, Yes)
			synctest.Wait()
		}
		last := p.asked()[0]
		for _, answer := range []Answer{Yes, Always} {
			if !p.refuses(last.ID, answer, kinds.Overloaded) {
				t.Errorf("%s counts without a place", answer)
			}
		}
		if r, _ := p.findPermission("claude", identity.Peer{ID: desk}, kinds.KindNotify); !r.Ask {
			t.Error("a refused always has changed the rule")
		}
		first := p.later()[0]
		p.Release("claude", desk, first.ID)
		time.Sleep(time.Second)
		synctest.Wait()
		p.decide(last.ID, Yes)
		if n := p.Describe("claude").Waiting; n != maxWaiting/2 {
			t.Errorf("%d wait", n)
		}
	})
}

// The owner's yes holds although a bound is reached before the session is woken: the message waits
// until there is room, and the owner sees why. A no takes the yes back.
func TestAYesHoldsOverABound(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.asks(desk)
		p.permit(laptop)
		busy, _ := p.notify(laptop)
		var messages []Message
		for range 3 {
			m, _ := p.notify(desk)
			messages = append(messages, m)
		}
		for _, a := range p.Approvals() {
			if decided := p.decide(a.ID, Yes); !decided.Approved || decided.KeptBy != "" {
				t.Fatalf("yes: %+v", decided)
			}
		}
		if all := p.Approvals(); len(all) != 3 || !all[2].Approved || all[2].KeptBy != "" || len(p.asked()) != 0 {
			t.Fatalf("approved, and wait for their turn: %+v", all)
		}
		room := time.Now().Add(10 * time.Minute)
		p.hold(10, charge{cause: desk, peer: desk, at: room.Add(-time.Hour)}, "claude")
		p.Release("claude", laptop, busy.ID)
		time.Sleep(time.Second)
		synctest.Wait()
		all := p.Approvals()
		for _, a := range all {
			if !a.Approved || !strings.HasPrefix(a.KeptBy, "budget: woken turns of claude: 20 an hour") || !a.KeptUntil.Equal(room) {
				t.Errorf("kept back: %+v", a)
			}
		}
		if lines := p.Notices("claude"); len(all) != 3 || len(lines) != 2 || !strings.HasPrefix(lines[1], "approved messages that wait to wake claude: 3, until 2000-01-01T00:10:00Z at the earliest: budget: woken turns of claude") {
			t.Errorf("%d are kept back: %q", len(all), lines)
		}
		if n := len(p.told()); n != 4 {
			t.Errorf("told %d times of three approvals and a bound", n)
		}
		// Others go on meanwhile, and a no takes the yes back.
		if n := p.wake(laptop, 2); n != 2 || len(p.later()) != 0 {
			t.Errorf("laptop: %d at once, %d later", n, len(p.later()))
		}
		if p.decide(all[0].ID, No).Approved || len(p.Approvals()) != 2 {
			t.Errorf("no: %+v", p.Approvals())
		}
		if decided := p.decide(all[1].ID, Yes); !decided.Approved || decided.KeptBy == "" || len(p.Approvals()) != 2 {
			t.Errorf("yes once more: %+v", decided)
		}
		time.Sleep(time.Until(room) - 1)
		p.expectLater("over the bound")
		time.Sleep(time.Nanosecond)
		p.expectLater("within the bound", messages[1])
		p.Release("claude", desk, messages[1].ID)
		time.Sleep(time.Second)
		if p.expectLater("at last", messages[1:]...); len(p.Approvals()) != 0 {
			t.Errorf("approved %+v", p.Approvals())
		}
	})
}

// Each approved message wakes its session when its own peer has room, whichever was approved first.
func TestApprovedMessagesWaitForTheirOwnRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.asks(desk, laptop)
		p.permit(planner)
		busy, _ := p.notify(planner)
		late, _ := p.notify(laptop)
		soon, _ := p.notify(desk)
		for _, a := range p.Approvals() {
			p.decide(a.ID, Yes)
		}
		now := time.Now()
		p.hold(10, charge{cause: laptop, peer: laptop, at: now.Add(20*time.Minute - time.Hour)}, "claude")
		p.hold(10, charge{cause: desk, peer: desk, at: now.Add(10*time.Minute - time.Hour)}, "claude")
		p.Release("claude", planner, busy.ID)
		time.Sleep(10 * time.Minute)
		p.expectLater("after ten minutes", soon)
		p.Release("claude", desk, soon.ID)
		time.Sleep(10 * time.Minute)
		p.expectLater("after twenty minutes", soon, late)
	})
}

// The owner's answer is for what was shown: neither for other content under the same id, nor for what comes
// under it after the message has gone.
func TestAnAnswerIsForWhatWasShown(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.asks(desk)
		m := Message{Agent: "claude", Peer: identity.Peer{ID: desk}, Kind: kinds.KindNotify, ID: wire.NewMessageID(), Digest: [32]byte{1}}
		other := m
		other.Digest = [32]byte{2}
		p.request(m)
		first := p.Approvals()[0].ID
		p.request(m)
		if all := p.Approvals(); len(all) != 1 || all[0].ID != first {
			t.Errorf("the same again: %+v", all)
		}
		p.request(other)
		all := p.Approvals()
		if len(all) != 1 || all[0].ID == first {
			t.Errorf("of other content the owner is asked %+v", all)
		}
		if !p.refuses(first, Yes, kinds.NotFound) {
			t.Error("yes to what was replaced counts")
		}
		p.ForgetMessage(desk, m.ID)
		if all := p.Approvals(); len(all) != 0 {
			t.Errorf("after the message has gone: %+v", all)
		}

		p.notify(desk) // keeps the next one waiting
		p.decide(p.Approvals()[0].ID, Yes)
		synctest.Wait()
		p.request(m)
		p.decide(p.Approvals()[0].ID, Yes)
		p.ForgetMessage(desk, m.ID)
		p.request(other)
		if all := p.Approvals(); len(all) != 1 || all[0].Approved {
			t.Errorf("the yes is for what comes later: %+v", all)
		}
		time.Sleep(time.Hour) // on the virtual clock
		if woke := p.later(); len(woke) != 1 {
			t.Errorf("woken by %+v", woke)
		}
	})
}

// A no holds as long as the message lies in the inbox.
func TestANoHolds(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.asks(desk)
		m, _ := p.notify(desk)
		p.decide(p.Approvals()[0].ID, No)
		if !p.IsAsked(desk, m.ID) {
			t.Error("the answer is forgotten")
		}
		if p.request(m); len(p.Approvals()) != 0 {
			t.Errorf("the owner is asked again: %+v", p.Approvals())
		}
		p.ForgetMessage(desk, m.ID)
		if p.request(m); len(p.Approvals()) != 1 {
			t.Error("the owner is not asked about what came later")
		}
	})
}
