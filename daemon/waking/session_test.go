package waking

import (
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Nothing that waited for a session wakes the unwakeable one that replaces it, and the owner is not
// asked for it.
func TestAnUnwakeableSessionHasNothingThatWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk)
		p.asks(laptop)
		p.notify(desk)
		p.notify(desk)
		p.notify(laptop)
		if p.Describe("claude").Waiting != 1 || len(p.Approvals()) != 1 {
			t.Fatalf("%+v", p.Describe("claude"))
		}
		p.Attach("claude", true)
		time.Sleep(time.Hour)
		p.expectLater("while it is unwakeable")
		if n := len(p.Approvals()); n != 0 {
			t.Errorf("the owner is asked %d times for an unwakeable session", n)
		}
	})
}

// A session that replaces another one of its name has no message in hand.
func TestASessionThatReplacesAnotherIsFree(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk)
		p.notify(desk)
		waits, _ := p.notify(desk)
		p.Attach("claude", false)
		time.Sleep(postPause)
		p.expectLater("free of the message of the one before it", waits)
		p.Release("claude", desk, waits.ID)
		time.Sleep(postPause)
		p.notify(desk)
		p.Attach("claude", false)
		time.Sleep(postPause)
		if _, now := p.notify(desk); !now {
			t.Error("it has the message of the one before it in hand")
		}
	})
}

// The owner is not asked about a session that has ended.
func TestASessionThatHasEndedAsksNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.asks(desk)
		p.notify(desk)
		p.Detach("claude")
		if all := p.Approvals(); len(all) != 0 {
			t.Errorf("it asks: %+v", all)
		}
		p.NoteLoop("claude", desk, kinds.KindNotify, errApprovalsFull)
		if n := p.told(); len(n) != 1 {
			t.Errorf("told of a session that has ended: %+v", n)
		}
	})
}

// Of two that watch one message, the later one hears of it, also when the other has stopped. Nothing
// is left of either.
func TestWatches(t *testing.T) {
	p := play(t, t.TempDir())
	id := wire.NewMessageID()
	_, stop := p.Watch("claude", desk, id)
	taken, stopToo := p.Watch("claude", desk, id)
	stop()
	p.Acknowledge("claude", desk, id)
	select {
	case <-taken:
	default:
		t.Error("the later one hears nothing")
	}
	stopToo()
	_, stop = p.Watch("claude", desk, id)
	if stop(); len(p.watches) != 0 {
		t.Errorf("%d watches are left", len(p.watches))
	}
}

// A question waits at a session that cannot be woken yet, and wakes it when it can. One that is over by
// then does not, nor does a notice: it lies in the inbox.
func TestAQuestionWaitsForASessionThatCanBeWokenLater(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk)
		p.allow(allowed(desk, kinds.KindQuery))
		p.Attach("claude", true)
		ask := func() Message {
			m := Message{Agent: "claude", Peer: identity.Peer{ID: desk, Name: "x"}, Kind: kinds.KindQuery, ID: wire.NewMessageID()}
			p.request(m)
			return m
		}
		p.notify(desk)
		over, waits := ask(), ask()
		for range 2 * maxWaiting {
			p.Release("claude", desk, ask().ID)
		}
		time.Sleep(time.Hour)
		p.expectLater("while it cannot be woken")
		if s := p.Describe("claude"); s.Waiting != 2 || s.Day != 0 {
			t.Errorf("described as %+v", s)
		}
		p.Release("claude", desk, over.ID)
		p.Attach("claude", true) // for another reason
		p.Attach("claude", false)
		p.expectLater("when it can be woken", waits)
	})
}
