package waking

import (
	"errors"
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
				if _, err := p.Decide(id, Always); !errors.Is(err, &kinds.Error{Code: kinds.NotFound}) {
					t.Errorf("an old answer: %v", err)
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
		decide := func() {
			t.Helper()
			if _, err := p.Decide(p.Approvals()[0].ID, Yes); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		p.asks(desk)
		p.notify(desk)
		p.notify(desk)
		decide()
		second := p.Approvals()[0].ID
		if p.Rules.Revoke(func(Permission) bool { return true }); len(p.Approvals()) != 0 || p.Describe("claude").Approvals != 0 || len(p.Notices("claude")) != 0 {
			t.Errorf("what was revoked still asks: %+v", p.Approvals())
		}
		if _, err := p.Decide(second, Yes); !errors.Is(err, &kinds.Error{Code: kinds.NotFound}) {
			t.Errorf("yes to what was revoked: %v", err)
		}
		p.asks(laptop)
		m, _ := p.notify(laptop)
		decide() // the first message is not taken: this one waits
		p.Rules.Revoke(func(Permission) bool { return true })
		time.Sleep(time.Hour)
		if synctest.Wait(); len(p.later()) != 1 || p.later()[0].ID == m.ID {
			t.Errorf("woken for %+v", p.later())
		}
	})
}

// The owner's yes for a muted session is refused, and the message still waits.
func TestAMutedSessionTakesNoYes(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.asks(desk)
		p.notify(desk)
		if err := p.Rules.Mute("claude", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		id := p.Approvals()[0].ID
		for _, answer := range []Answer{Yes, Always} {
			if _, err := p.Decide(id, answer); !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) {
				t.Errorf("%s: %v", answer, err)
			}
		}
		time.Sleep(time.Hour)
		if _, err := p.Decide(id, Yes); err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); len(p.later()) != 1 {
			t.Error("yes does not wake it")
		}
	})
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
			if _, err := p.Decide(p.asked()[0].ID, Yes); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		last := p.asked()[0]
		for _, answer := range []Answer{Yes, Always} {
			if _, err := p.Decide(last.ID, answer); !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
				t.Errorf("%s without a place: %v", answer, err)
			}
		}
		if r, _ := p.findPermission("claude", identity.Peer{ID: desk}, kinds.KindNotify); !r.Ask {
			t.Error("a refused always has changed the rule")
		}
		first := p.later()[0]
		p.Release("claude", desk, first.ID)
		time.Sleep(time.Second)
		synctest.Wait()
		if _, err := p.Decide(last.ID, Yes); err != nil {
			t.Fatal(err)
		}
		if n := p.Describe("claude").Waiting; n != maxWaiting/2 {
			t.Errorf("%d wait", n)
		}
	})
}

// The owner's yes is refused while the bounds of turns are reached, and the message still waits.
// holds: security.md#agents-on-this-machine
func TestAYesOverABoundIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk)
		p.wake(desk, 100)
		p.asks(desk)
		p.notify(desk)
		id := p.asked()[0].ID
		if _, err := p.Decide(id, Yes); !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
			t.Errorf("yes over the bound: %v", err)
		}
		time.Sleep(time.Hour)
		if _, err := p.Decide(id, Yes); err != nil {
			t.Error(err)
		}
		if synctest.Wait(); len(p.later()) != 1 {
			t.Error("yes does not wake it")
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
			if decided, err := p.Decide(a.ID, Yes); err != nil || !decided.Approved || decided.KeptBy != "" {
				t.Fatalf("yes: %+v, %v", decided, err)
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
		if decided, err := p.Decide(all[0].ID, No); err != nil || decided.Approved || len(p.Approvals()) != 2 {
			t.Errorf("no: %+v, %v", p.Approvals(), err)
		}
		if decided, err := p.Decide(all[1].ID, Yes); err != nil || !decided.Approved || decided.KeptBy == "" || len(p.Approvals()) != 2 {
			t.Errorf("yes once more: %+v, %v", decided, err)
		}
		time.Sleep(time.Until(room) - 1)
		if synctest.Wait(); len(p.later()) != 0 {
			t.Error("woken over the bound")
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); len(p.later()) != 1 || p.later()[0].ID != messages[1].ID {
			t.Errorf("woken for %+v", p.later())
		}
		p.Release("claude", desk, messages[1].ID)
		time.Sleep(time.Second)
		if synctest.Wait(); len(p.later()) != 2 || len(p.Approvals()) != 0 {
			t.Errorf("woken for %+v, approved %+v", p.later(), p.Approvals())
		}
	})
}

// A no wakes nobody, whatever keeps a yes from counting: a mute, or a bound.
func TestANoCountsAlways(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.asks(desk)
		p.notify(desk)
		p.notify(desk)
		if err := p.Rules.Mute("claude", time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Decide(p.Approvals()[0].ID, No); err != nil {
			t.Errorf("muted: %v", err)
		}
		time.Sleep(time.Minute)
		p.hold(10, charge{cause: desk, peer: desk, at: time.Now()}, "claude")
		if _, err := p.Decide(p.Approvals()[0].ID, No); err != nil {
			t.Errorf("over a bound: %v", err)
		}
		time.Sleep(2 * time.Hour)
		if synctest.Wait(); len(p.later()) != 0 || len(p.Approvals()) != 0 {
			t.Errorf("woken for %+v; %+v wait", p.later(), p.Approvals())
		}
	})
}

// The owner is asked once about a message, and each approved message wakes its session when its own
// peer has room, whichever was approved first.
func TestApprovedMessagesWaitForTheirOwnRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.asks(desk, laptop)
		now := time.Now()
		first, _ := p.notify(laptop)
		if _, err := p.Decide(p.Approvals()[0].ID, Yes); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the session is busy with that
		p.hold(8, charge{cause: laptop, peer: laptop, at: now.Add(20*time.Minute - time.Hour)}, "claude")
		p.hold(9, charge{cause: desk, peer: desk, at: now.Add(10*time.Minute - time.Hour)}, "claude")
		late, _ := p.notify(laptop)
		soon, _ := p.notify(desk)
		p.request(soon)
		all := p.Approvals()
		if len(all) != 2 {
			t.Fatalf("%+v", all)
		}
		for _, a := range all {
			if _, err := p.Decide(a.ID, Yes); err != nil {
				t.Fatal(err)
			}
		}
		p.hold(1, charge{cause: laptop, peer: laptop, at: now}, "claude")
		p.hold(1, charge{cause: desk, peer: desk, at: now}, "claude")
		p.Release("claude", laptop, first.ID)
		time.Sleep(10 * time.Minute)
		if synctest.Wait(); len(p.later()) != 2 || p.later()[1].ID != soon.ID {
			t.Fatalf("after ten minutes woken for %+v", p.later())
		}
		p.Release("claude", desk, soon.ID)
		time.Sleep(10 * time.Minute)
		if synctest.Wait(); len(p.later()) != 3 || p.later()[2].ID != late.ID {
			t.Errorf("after twenty minutes woken for %+v", p.later())
		}
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
		if _, err := p.Decide(first, Yes); !errors.Is(err, &kinds.Error{Code: kinds.NotFound}) {
			t.Errorf("yes to what was replaced: %v", err)
		}
		p.ForgetMessage(desk, m.ID)
		if all := p.Approvals(); len(all) != 0 {
			t.Errorf("after the message has gone: %+v", all)
		}

		p.notify(desk) // keeps the next one waiting
		if _, err := p.Decide(p.Approvals()[0].ID, Yes); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p.request(m)
		if _, err := p.Decide(p.Approvals()[0].ID, Yes); err != nil {
			t.Fatal(err)
		}
		p.ForgetMessage(desk, m.ID)
		p.request(other)
		if all := p.Approvals(); len(all) != 1 || all[0].Approved {
			t.Errorf("the yes is for what comes later: %+v", all)
		}
		time.Sleep(time.Hour)
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
		if _, err := p.Decide(p.Approvals()[0].ID, No); err != nil {
			t.Fatal(err)
		}
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
