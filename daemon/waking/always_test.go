package waking

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/kinds"
)

// After always no message of the peer and the kind waits for the owner but what has no room.
func TestAlwaysApprovesWhatWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.asks(desk, laptop)
		const room = maxWaiting / 2
		p.notify(laptop)
		for range room + 2 {
			p.notify(desk)
		}
		p.decide(p.asked()[1].ID, Always)
		if all := p.asked(); len(all) != 3 || all[0].Peer != laptop {
			t.Errorf("these wait for the owner: %+v", all)
		}
		synctest.Wait()
		if n := len(p.later()) + p.Describe("claude").Waiting; n != room {
			t.Errorf("%d wake it or wait to", n)
		}
	})
}

// What happens while an Always is written: the message still waits if a bound was reached, and wakes
// nobody if it was taken.
func TestWhatHappensWhileAlwaysIsWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		meanwhile := func(do func()) (err error) {
			p.asks(desk)
			p.Rules.files.SyncDir = func(dir string) error {
				p.Rules.files.SyncDir = durable.SyncDir
				do()
				return durable.SyncDir(dir)
			}
			_, err = p.Decide(p.asked()[0].ID, Always)
			return err
		}
		p.asks(desk, laptop)
		m, _ := p.notify(desk)
		p.notify(laptop)
		if err := meanwhile(func() { p.hold(10, charge{cause: desk, peer: desk, at: time.Now()}, "claude") }); !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) || len(p.asked()) != 2 {
			t.Errorf("a bound was reached meanwhile: %v; %+v ask", err, p.asked())
		}
		time.Sleep(time.Hour)
		if err := meanwhile(func() { p.Release("claude", desk, m.ID) }); err != nil || len(p.asked()) != 1 {
			t.Errorf("taken meanwhile: %v; %+v ask", err, p.asked())
		}
		time.Sleep(time.Hour)
		p.expectLater("after it was taken")
	})
}
