package waking

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/kinds"
)

// Nothing that waited for a session wakes the unwakeable one that replaces it, and the owner is not
// asked for it.
func TestAnUnwakeableSessionHasNothingThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
		p.permit(desk)
		rule := allowed(laptop, kinds.KindNotify)
		rule.Ask = true
		if err := p.Rules.Allow(rule); err != nil {
			t.Fatal(err)
		}
		p.notify(desk)
		p.notify(desk)
		p.notify(laptop)
		if p.Describe("claude").Waiting != 1 || len(p.Approvals()) != 1 {
			t.Fatalf("%+v", p.Describe("claude"))
		}
		p.Attach("claude", true)
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(p.later()); n != 0 {
			t.Errorf("an unwakeable session is woken %d times", n)
		}
		if n := len(p.Approvals()); n != 0 {
			t.Errorf("the owner is asked %d times for an unwakeable session", n)
		}
	})
}

// A session that replaces another one of its name has no message in hand.
func TestASessionThatReplacesAnotherIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
		p.permit(desk)
		p.notify(desk)
		p.Attach("claude", false)
		time.Sleep(postPause)
		if _, now := p.notify(desk); !now {
			t.Error("it has the message of the one before it in hand")
		}
	})
}
