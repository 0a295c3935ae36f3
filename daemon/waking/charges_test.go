package waking

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// A session is woken 20 times an hour and 100 times a day, half of that by one peer, and a
// restart changes nothing about it.
func TestTurnsAnHourAndADay(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := play(t, dir)
		p.permit(desk, laptop)
		if n := p.wake(desk, 30); n != 10 {
			t.Errorf("one peer woke it %d times in an hour", n)
		}
		if n := p.wake(laptop, 30); n != 10 {
			t.Errorf("the other peer woke it %d times", n)
		}
		if n := p.told(); len(n) == 0 || n[0].Approval || n[0].Agent != "claude" || n[0].Peer != desk || len(n) > 4 {
			t.Errorf("notices: %+v", n)
		}
		if lines := p.Notices("claude"); len(lines) != 2 {
			t.Errorf("the owner hears %q", lines)
		}
		if s := p.Describe("claude"); s.Hour != 20 || s.Day != 20 || len(s.By) != 2 {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Hour)
		if len(p.Notices("claude")) != 0 {
			t.Error("a bound of an hour ago is still told of")
		}
		for range 4 {
			if n := p.wake(desk, 11); n != 10 {
				t.Errorf("in the next hour %d times", n)
			}
			time.Sleep(time.Hour)
		}
		if n := p.wake(desk, 11); n != 0 {
			t.Errorf("%d over the day's half", n)
		}
		if n := p.wake(laptop, 11); n != 10 {
			t.Errorf("the other peer has %d left", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(6 * time.Hour) // each bubble begins at the same instant
		p := play(t, dir)
		if n := p.wake(desk, 2); n != 0 {
			t.Errorf("a restart gives it %d more", n)
		}
		if s := p.Describe("claude"); s.Day != 70 {
			t.Errorf("%d turns are known after a restart", s.Day)
		}
		time.Sleep(day)
		if n := p.wake(desk, 11); n != 10 {
			t.Errorf("the next day %d times", n)
		}
		if s := p.Describe("claude"); s.Day != 10 {
			t.Errorf("%d turns of the last day", s.Day)
		}
	})
}

// Peers that have woken a session often leave a part to whoever may wake it and comes later.
func TestPeersThatComeLaterHaveTheirPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
		p.permit(desk, laptop, planner)
		if a, b, c := p.wake(desk, 20), p.wake(laptop, 20), p.wake(planner, 20); a != 10 || b < 3 || c < 3 || a+b+c > 20 {
			t.Errorf("they woke it %d, %d and %d times", a, b, c)
		}
	})
}

func TestShares(t *testing.T) {
	for parts := 1; parts <= 30; parts++ {
		for _, sum := range []int{16, 20, 64, 100} {
			held := make(map[identity.ID]int)
			total := 0
			for n := range parts {
				id := identity.ID{byte(n + 1)}
				for hasShare(sum, parts, held, id) {
					held[id]++
					total++
				}
				if held[id] > sum/2 || parts <= sum && held[id] < max(1, min(sum/2, sum/2/parts)) {
					t.Errorf("of %d, %d peers: number %d has %d", sum, parts, n+1, held[id])
				}
			}
			if total > sum {
				t.Errorf("of %d, %d peers have %d", sum, parts, total)
			}
		}
	}
}

// A sender that gives up while its turn is written keeps nobody else back.
func TestATurnIsWrittenAlsoIfItsSenderGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
		p.permit(desk, laptop)
		go p.DB.Write(t.Context(), false, func(*store.Tx) error { time.Sleep(time.Second); return nil })
		synctest.Wait()
		ctx, giveUp := context.WithCancel(t.Context())
		giveUp()
		m := Message{Agent: "claude", Peer: identity.Peer{ID: desk}, Kind: kinds.KindNotify, ID: wire.NewMessageID()}
		if p.Request(ctx, m, nil) == nil {
			t.Error("the turn was not written")
		}
		p.Release("claude", desk, m.ID)
		if _, now := p.notify(laptop); !now {
			t.Error("the next one waits")
		}
	})
}

// A message whose turn cannot be written is tried again.
func TestATurnThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	p := play(t, t.TempDir())
	p.permit(desk)
	exec := func(sql string) {
		if err := p.DB.Write(t.Context(), false, func(tx *store.Tx) error { _, err := tx.Exec(sql); return err }); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TRIGGER full BEFORE INSERT ON daemon_turn BEGIN SELECT RAISE(ABORT, 'disk full'); END")
	m, now := p.notify(desk)
	exec("DROP TRIGGER full")
	for begun := time.Now(); len(p.later()) == 0 && time.Since(begun) < 10*time.Second; {
		time.Sleep(10 * time.Millisecond)
	}
	if late := p.later(); now || len(late) != 1 || late[0].ID != m.ID {
		t.Errorf("at once: %v; later: %+v", now, late)
	}
}
