package waking

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// A session is woken 20 times an hour and 100 times a day, half of that by one peer, and a
// restart changes nothing about it.
// holds: security.md#agents-on-this-machine
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

// hold charges a peer so many times, as many for each of the sessions.
func (p *played) hold(n int, c charge, sessions ...string) {
	p.Waker.mu.Lock()
	defer p.Waker.mu.Unlock()
	for i := range n {
		one := c
		one.agent, one.message = sessions[i%len(sessions)], wire.NewMessageID()
		p.charges = append(p.charges, &one)
	}
	slices.SortStableFunc(p.charges, func(a, b *charge) int { return a.at.Compare(b.at) })
}

// Each of the eight bounds counts by itself, and ends when what fills it is as old as its span.
func TestEachBoundOfCharges(t *testing.T) {
	many := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
	for _, bound := range []struct {
		sent     bool
		sessions []string
		ago      time.Duration // when the peer was charged
		half     int
		span     time.Duration
		text     string
	}{
		{false, []string{"claude"}, 50 * time.Minute, 10, time.Hour, "budget: woken turns of claude: 20 an hour, half of them by one peer"},
		{false, []string{"claude"}, 20 * time.Hour, 50, day, "budget: woken turns of claude: 100 a day, half of them by one peer"},
		{false, many, 50 * time.Minute, 50, time.Hour, "budget: woken turns of all sessions: 100 an hour, half of them by one peer"},
		{false, many, 20 * time.Hour, 250, day, "budget: woken turns of all sessions: 500 a day, half of them by one peer"},
		{true, []string{"claude"}, 50 * time.Minute, 50, time.Hour, "budget: messages sent in woken turns of claude: 100 an hour, half of them by one peer"},
		{true, []string{"claude"}, 20 * time.Hour, 250, day, "budget: messages sent in woken turns of claude: 500 a day, half of them by one peer"},
		{true, many, 50 * time.Minute, 250, time.Hour, "budget: messages sent in woken turns of all sessions: 500 an hour, half of them by one peer"},
		{true, many, 20 * time.Hour, 1250, day, "budget: messages sent in woken turns of all sessions: 2500 a day, half of them by one peer"},
	} {
		t.Run(bound.text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := play(t, t.TempDir())
				p.permit(desk)
				now := time.Now()
				old := charge{cause: desk, peer: desk, sent: bound.sent, at: now.Add(-bound.ago)}
				p.hold(300, charge{cause: desk, peer: desk, sent: !bound.sent, at: old.at}, "codex")
				p.hold(300, charge{cause: desk, peer: desk, sent: bound.sent, at: now.Add(-day)}, "claude")
				p.hold(bound.half-1, old, bound.sessions...)
				next := charge{agent: "claude", cause: desk, peer: desk, sent: bound.sent, at: now}
				check := func(text string, room time.Time) {
					t.Helper()
					p.Waker.mu.Lock()
					defer p.Waker.mu.Unlock()
					if err := p.checkCharge(&next); text == "" && err != nil || text != "" && (err == nil || err.Error() != text) {
						t.Errorf("%d are held: %v", len(p.charges), err)
					}
					if got := p.findRoom(&next); !got.Equal(room) {
						t.Errorf("%d are held: there is room at %v", len(p.charges), got)
					}
				}
				check("", now)
				p.hold(1, old, bound.sessions...)
				p.hold(2, charge{cause: laptop, peer: laptop, sent: bound.sent, at: now}, "claude", "codex")
				end := old.at.Add(bound.span)
				check(bound.text, end)
				next.at = end.Add(-1)
				check(bound.text, end)
				next.at = end
				check("", end)
			})
		})
	}
}

// A peer may send under the id of a message that it was sent, and be sent one under the id of its
// own: neither is a repeat of the other. Nor is a message for one session one for another.
func TestChargesAreOfOneSessionAndOneWay(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk, laptop)
		woke, _ := p.notify(desk)
		sent := Message{Agent: "claude", Peer: identity.Peer{ID: laptop}, Kind: kinds.KindNotify, ID: wire.NewMessageID()}
		if err := p.send(desk, woke.ID, sent.ID); err != nil {
			t.Fatal(err)
		}
		p.Release("claude", desk, woke.ID)
		time.Sleep(time.Second)
		if !p.request(sent) {
			t.Error("a message under the id of one that was sent does not wake the session")
		}
		if err := p.send(desk, woke.ID, woke.ID); err != nil || p.countCharges("claude", true, time.Time{})[desk] != 2 {
			t.Errorf("a message under the id of one that came does not count: %v", err)
		}
		p.Attach("codex", false)
		other := woke
		other.Agent = "codex"
		if !p.request(other) {
			t.Error("what has woken one session does not wake another")
		}
	})
}
