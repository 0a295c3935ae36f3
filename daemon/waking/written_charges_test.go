package waking

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// A sender that gives up while its turn is written keeps nobody else back.
// holds: security.md#agents-on-this-machine
func TestATurnIsWrittenAlsoIfItsSenderGivesUp(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
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

// fillDisk lets no charge be written until the returned function is called.
func (p *played) fillDisk() (free func()) {
	p.t.Helper()
	statedb.Exec(p.t, p.DB, "CREATE TRIGGER full BEFORE INSERT ON daemon_turn BEGIN SELECT RAISE(ABORT, 'disk full'); END")
	return func() { p.t.Helper(); statedb.Exec(p.t, p.DB, "DROP TRIGGER full") }
}

// countWritten counts the charges on disk.
func (p *played) countWritten() int {
	p.t.Helper()
	all, err := store.ReadValue(p.t.Context(), p.DB, func(tx *store.Tx) ([]*charge, error) { return readCharges(tx, time.Time{}) })
	if err != nil {
		p.t.Fatal(err)
	}
	return len(all)
}

// A message whose turn cannot be written is tried again after two seconds, and counts nothing until
// then. The log says so once.
func TestATurnThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk)
		free := p.fillDisk()
		m, now := p.notify(desk)
		for range 3 {
			if s := p.Describe("claude"); now || s.Day != 0 || s.Waiting != 1 {
				t.Fatalf("at once: %v; %+v", now, s)
			}
			time.Sleep(savePause)
			synctest.Wait()
		}
		if n := strings.Count(p.log.String(), "a session is not woken yet"); n != 1 {
			t.Errorf("the log says %d times that the session is not woken", n)
		}
		free()
		time.Sleep(savePause - 1)
		p.expectLater("before two seconds")
		time.Sleep(time.Nanosecond)
		if p.expectLater("after two seconds", m); p.Describe("claude").Day != 1 {
			t.Error("it does not count")
		}
	})
}

// A message that was taken while its turn was written does not wait, if that failed.
func TestATakenMessageIsNotTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk)
		p.fillDisk()
		go p.DB.Write(t.Context(), false, func(*store.Tx) error { time.Sleep(time.Second); return nil })
		synctest.Wait()
		m := Message{Agent: "claude", Peer: identity.Peer{ID: desk}, Kind: kinds.KindNotify, ID: wire.NewMessageID()}
		go p.request(m)
		synctest.Wait()
		p.Acknowledge("claude", desk, m.ID)
		time.Sleep(time.Minute)
		if synctest.Wait(); p.Describe("claude").Waiting != 0 {
			t.Error("what was taken waits")
		}
	})
}

// What cannot be counted is not sent, and counts nothing. A turn that was none counts nothing after a
// restart either.
func TestWhatIsNotCountedIsNotSent(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk)
		woke, _ := p.notify(desk)
		free := p.fillDisk()
		id := wire.NewMessageID()
		for range 2 {
			if err := p.send(desk, woke.ID, id); err == nil {
				t.Error("what cannot be counted is sent")
			}
		}
		if n := p.countCharges("claude", true, time.Time{}); n[desk] != 0 {
			t.Errorf("it counts: %v", n)
		}
		free()
		if err := p.send(desk, woke.ID, id); err != nil || p.countWritten() != 2 {
			t.Errorf("%d on disk, %v", p.countWritten(), err)
		}
		p.Finish(t.Context(), woke, Outcome{})
		if n := p.countWritten(); n != 1 {
			t.Errorf("%d on disk after a turn that was none", n)
		}
	})
}
