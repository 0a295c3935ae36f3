package waking

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/config"
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

// exec changes the database.
func (p *played) exec(sql string) {
	p.t.Helper()
	if err := p.DB.Write(p.t.Context(), false, func(tx *store.Tx) error { _, err := tx.Exec(sql); return err }); err != nil {
		p.t.Fatal(err)
	}
}

// fillDisk lets no charge be written until the returned function is called.
func (p *played) fillDisk() (free func()) {
	p.t.Helper()
	p.exec("CREATE TRIGGER full BEFORE INSERT ON daemon_turn BEGIN SELECT RAISE(ABORT, 'disk full'); END")
	return func() { p.t.Helper(); p.exec("DROP TRIGGER full") }
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
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
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
		if n := strings.Count(p.logged(), "a session is not woken yet"); n != 1 {
			t.Errorf("the log says %d times that the session is not woken", n)
		}
		free()
		time.Sleep(savePause - 1)
		if synctest.Wait(); len(p.later()) != 0 {
			t.Error("it is tried again at once")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if late := p.later(); len(late) != 1 || late[0].ID != m.ID || p.Describe("claude").Day != 1 {
			t.Errorf("later: %+v", late)
		}
	})
}

// A message that was taken while its turn was written does not wait, if that failed.
func TestATakenMessageIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
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
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
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

// A session whose peer's share is used up is told when that ends: of an hour, or of a day.
func TestWhenAUsedUpShareEnds(t *testing.T) {
	for span, half := range map[time.Duration]int{time.Hour: 50, day: 250} {
		synctest.Test(t, func(t *testing.T) {
			p := play(t, t.TempDir())
			p.permit(desk)
			ago := span - 7*time.Minute
			p.hold(half, charge{cause: desk, peer: laptop, sent: true, at: time.Now().Add(-ago)}, "claude")
			woke, _ := p.notify(desk)
			for _, left := range []time.Duration{7 * time.Minute, time.Minute, time.Nanosecond} {
				time.Sleep(time.Until(p.charges[0].at.Add(span - left)))
				e, ok := errors.AsType[*kinds.Error](p.send(desk, woke.ID, wire.NewMessageID()))
				if !ok || e.Code != kinds.Overloaded || e.Reason() != kinds.ReasonShareUsed {
					t.Fatalf("%v before the end: %v", left, e)
				}
				if said := time.Duration(e.RetryAfterMS) * time.Millisecond; said < left || said > left+time.Millisecond {
					t.Errorf("%v before the end it says %v", left, said)
				}
			}
			if told, lines := p.told(), p.Notices("claude"); len(told) == 0 || told[0].Kind != "send" || len(lines) != 1 || !strings.Contains(lines[0], "claude was not let send more because of") {
				t.Errorf("told %+v, and %q", told, lines)
			}
			time.Sleep(time.Nanosecond)
			if err := p.send(desk, woke.ID, wire.NewMessageID()); err != nil || len(p.Notices("claude")) != 0 {
				t.Errorf("at the end: %v; the owner hears %q", err, p.Notices("claude"))
			}
		})
	}
}

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

// Each peer that holds some of a bound has a part of it, also if a rule about answers lets it wake
// the session, or its own rule was revoked. So has who asks for more.
func TestWhoHasAPart(t *testing.T) {
	p := play(t, t.TempDir())
	p.permit(desk)
	for who, want := range map[identity.ID]int{desk: 2, laptop: 2, planner: 3} {
		if n := p.countParts(&window{agent: "claude"}, map[identity.ID]int{laptop: 5}, who); n != want {
			t.Errorf("%d have a part, want %d", n, want)
		}
	}
}

// A peer may send under the id of a message that it was sent, and be sent one under the id of its
// own: neither is a repeat of the other. Nor is a message for one session one for another.
func TestChargesAreOfOneSessionAndOneWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
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

// The settings bound the turns of a session, what is sent in them, and all sessions together. Turns that
// are used up are told of until there are some again, and more of them count at once.
func TestSettingsOfTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
		settings := &config.Agents{Named: map[string]config.Agent{"claude": {Turns: config.Turns{Hour: 40, Day: 200}}, "*": {Turns: config.Turns{Hour: 4}}}}
		p.Config.Agents = func() *config.Agents { return settings }
		for _, c := range []struct {
			agent string
			sent  bool
			want  [4]int
		}{{"claude", false, [4]int{40, 200, 200, 1000}}, {"codex", true, [4]int{20, 500, 1000, 5000}}} {
			for i, in := range p.listWindows(&charge{agent: c.agent, sent: c.sent}) {
				if in.most != c.want[i] {
					t.Errorf("bound %d of %s, sent %v, is %d, want %d", i, c.agent, c.sent, in.most, c.want[i])
				}
			}
		}
		settings = &config.Agents{Named: map[string]config.Agent{"claude": {Turns: config.Turns{Hour: 4, Day: 10}}}}
		asks := allowed(laptop, kinds.KindNotify)
		asks.Ask = true
		if err := p.Rules.Allow(asks); err != nil {
			t.Fatal(err)
		}
		p.permit(desk)
		begun := time.Now()
		if n := p.wake(desk, 5); n != 2 {
			t.Errorf("desk woke it %d times", n)
		}
		room := begun.Add(time.Hour)
		if by := p.Describe("claude").By; len(by) != 1 || !by[0].UsedUpUntil.Equal(room) {
			t.Errorf("used up until %v, want %v", by[0].UsedUpUntil, room)
		}
		if told := p.told(); len(told) != 1 || !told[0].Until.Equal(room) {
			t.Errorf("told %+v", told)
		}
		m := Message{Agent: "claude", Peer: identity.Peer{ID: desk}, Kind: kinds.KindNotify}
		if p.FindStanding(m) != UsedUp || !p.RecordUsedUp(m).Equal(room) || len(p.told()) != 1 {
			t.Errorf("standing %v, room at %v, told %+v", p.FindStanding(m), p.RecordUsedUp(m), p.told())
		}
		time.Sleep(time.Until(room) - 1)
		if len(p.Notices("claude")) != 1 {
			t.Errorf("before there is room the owner hears %q", p.Notices("claude"))
		}
		time.Sleep(time.Nanosecond)
		if by := p.Describe("claude").By; len(p.Notices("claude")) != 0 || !by[0].UsedUpUntil.IsZero() || p.FindStanding(m) != Ready {
			t.Errorf("when there is room the owner hears %q, and of %+v", p.Notices("claude"), by[0])
		}
	})
}

// An approved message that used up turns keep back goes on when the settings give more.
func TestMoreTurnsWakeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
		settings := new(config.Agents)
		p.Config.Agents = func() *config.Agents { return settings }
		asks := allowed(desk, kinds.KindNotify)
		asks.Ask = true
		if err := p.Rules.Allow(asks); err != nil {
			t.Fatal(err)
		}
		p.permit(laptop)
		busy, _ := p.notify(laptop)
		m, _ := p.notify(desk)
		if _, err := p.Decide(p.asked()[0].ID, Yes); err != nil {
			t.Fatal(err)
		}
		p.hold(10, charge{cause: desk, peer: desk, at: time.Now()}, "claude")
		p.Release("claude", laptop, busy.ID)
		time.Sleep(time.Second)
		synctest.Wait()
		if all := p.Approvals(); len(all) != 1 || all[0].KeptBy == "" || len(p.Notices("claude")) != 2 {
			t.Fatalf("%+v; the owner hears %q", all, p.Notices("claude"))
		}
		settings = &config.Agents{Named: map[string]config.Agent{"claude": {Turns: config.Turns{Hour: 40}}}}
		p.ReadSettings()
		synctest.Wait()
		if late := p.later(); len(late) != 1 || late[0].ID != m.ID || len(p.Notices("claude")) != 0 {
			t.Errorf("woken for %+v; the owner hears %q", late, p.Notices("claude"))
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
		asks := allowed(desk, kinds.KindNotify)
		asks.Ask = true
		if err := p.Rules.Allow(asks); err != nil {
			t.Fatal(err)
		}
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
