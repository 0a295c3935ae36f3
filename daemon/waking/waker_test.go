package waking

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/schema"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// played is a Waker whose sessions a test plays.
type played struct {
	*Waker
	t *testing.T

	mu      sync.Mutex // guards the rest
	notices []Notice
	late    []Message // that woke a session after their Request
}

// later returns the messages that woke a session after their Request.
func (p *played) later() []Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.late)
}

func (p *played) told() []Notice {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.notices)
}

func (p *played) hear(n Notice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notices = append(p.notices, n)
}

// play opens a Waker on a directory, with a session claude that each peer may wake.
func play(t *testing.T, dir string) *played {
	t.Helper()
	db, err := store.OpenDB(t.Context(), filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	p := &played{t: t}
	p.Waker, err = OpenWaker(t.Context(), Config{
		Rules: openRules(t, dir), DB: db, Agents: func() *config.Agents { return new(config.Agents) },
		Wakers: func(string) []identity.ID { return nil }, Name: func(id identity.ID) string { return id.Label() },
		Tell: p.hear, Save: func(f func() error) error { return f() }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait(); db.Close() })
	p.Attach("claude")
	return p
}

func (p *played) permit(peers ...identity.ID) {
	p.t.Helper()
	for _, id := range peers {
		if err := p.Rules.Allow(allowed(id, kinds.KindNotify)); err != nil {
			p.t.Fatal(err)
		}
	}
}

// notify asks whether a notify of a peer may wake claude, and reports whether it may at once.
func (p *played) notify(from identity.ID) (Message, bool) {
	m := Message{Agent: "claude", Peer: identity.Peer{ID: from, Name: "x"}, Kind: kinds.KindNotify, ID: wire.NewMessageID()}
	return m, p.request(m)
}

func (p *played) request(m Message) bool {
	return p.Request(p.t.Context(), m, func(context.Context, client.WakeGrant) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.late = append(p.late, m)
		return true
	}) != nil
}

// wake has a peer wake claude as often as it can in so many tries, a second apart, each message
// being taken at once.
func (p *played) wake(from identity.ID, tries int) (n int) {
	for range tries {
		m, now := p.notify(from)
		if now {
			n++
		}
		p.Release(m.Agent, from, m.ID)
		time.Sleep(time.Second)
	}
	return n
}

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

// One message is in a session at a time, and none wakes it within 250 ms of another. Of those
// that wait the one goes next whose peer has woken the session least, and a peer has half of the
// places.
func TestMessagesWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
		p.permit(desk, laptop)
		first, now := p.notify(desk)
		if !now {
			t.Fatal("the first one waits")
		}
		for range 20 {
			if _, now := p.notify(desk); now {
				t.Error("two at a time")
			}
		}
		if s := p.Describe("claude"); s.Waiting != maxWaiting/2 {
			t.Errorf("%d of one peer wait", s.Waiting)
		}
		other, _ := p.notify(laptop)
		time.Sleep(time.Minute)
		if len(p.later()) != 0 {
			t.Error("woken while a message is in it")
		}
		begun := time.Now()
		p.Acknowledge("claude", desk, first.ID)
		synctest.Wait()
		if len(p.later()) != 1 || p.later()[0].ID != other.ID || time.Since(begun) != 0 {
			t.Errorf("woken for %+v after %v", p.later(), time.Since(begun))
		}
		p.Release("claude", laptop, other.ID)
		time.Sleep(postPause - 1)
		if synctest.Wait(); len(p.later()) != 1 {
			t.Error("woken again within 250 ms")
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); len(p.later()) != 2 {
			t.Fatal("not woken after 250 ms")
		}
		time.Sleep(busyFor - 1)
		if synctest.Wait(); len(p.later()) != 2 {
			t.Error("woken although the message was not taken")
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); len(p.later()) != 3 {
			t.Error("a message that nobody takes keeps the others back for ever")
		}
		// What is revoked, or muted, wakes nobody any more.
		p.Rules.Revoke(func(p Permission) bool { return p.Peer == desk })
		time.Sleep(time.Hour)
		if synctest.Wait(); len(p.later()) != 3 || p.Describe("claude").Waiting != 0 {
			t.Errorf("%d woke it, %d wait", len(p.later()), p.Describe("claude").Waiting)
		}
	})
}

// A message wakes a session once, a turn that was none counts nothing, and a session that has
// ended has nothing that waits.
func TestOnceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
		p.permit(desk)
		m, now := p.notify(desk)
		if !now || p.request(m) {
			t.Error("twice")
		}
		p.Finish(t.Context(), m, false)
		if s := p.Describe("claude"); s.Day != 0 {
			t.Errorf("a turn that was none counts: %+v", s)
		}
		time.Sleep(time.Second)
		if !p.request(m) {
			t.Error("what was not posted may not be tried again")
		}
		p.Finish(t.Context(), m, true)
		p.Acknowledge("claude", desk, m.ID)
		time.Sleep(time.Second)
		if p.request(m) {
			t.Error("a repeat wakes it again")
		}
		p.notify(desk)
		p.notify(desk)
		p.Detach("claude")
		if _, now := p.notify(desk); now || p.Describe("claude").Waiting != 0 || p.MayWake("claude", identity.Peer{ID: desk}, kinds.KindNotify) {
			t.Error("a session that has ended is woken")
		}
		p.Attach("claude")
		if p.ForgetPeer(desk); p.Describe("claude").Day != 0 {
			t.Error("turns of a forgotten peer count")
		}
		if _, now := p.notify(desk); now {
			t.Error("a forgotten peer wakes it")
		}
	})
}

// What a woken turn sends counts against the peer that woke it, as do the turns that follow.
func TestSendsOfAWokenTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
		p.permit(desk)
		if err := p.Rules.SetAnswers(AnswersRule{}, true); err != nil {
			t.Fatal(err)
		}
		woke, _ := p.notify(desk)
		id := wire.NewMessageID()
		for range 3 { // a repeat is one
			if err := p.CountSend(t.Context(), "claude", woke.ID, id); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 { // what the user asks for counts against nobody
			if err := p.CountSend(t.Context(), "claude", wire.NewMessageID(), wire.NewMessageID()); err != nil {
				t.Fatal(err)
			}
		}
		p.Release("claude", desk, woke.ID)
		time.Sleep(time.Second)
		answer := Message{Agent: "claude", Peer: identity.Peer{ID: laptop}, Kind: kinds.KindResult, ID: wire.NewMessageID(), Answer: id}
		if !p.request(answer) {
			t.Fatal("the answer does not wake it")
		}
		if s := p.Describe("claude"); s.Day != 2 || len(s.By) != 1 || s.By[0].Peer != desk {
			t.Errorf("%+v", s)
		}
		n := 1
		for ; n < 200; n++ {
			if err := p.CountSend(t.Context(), "claude", answer.ID, wire.NewMessageID()); err != nil {
				if !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
					t.Error(err)
				}
				break
			}
		}
		if n != sessionSends.hour/2 {
			t.Errorf("%d messages were sent", n)
		}
		p.Release("claude", laptop, answer.ID)
		time.Sleep(time.Second)
		own := Message{Agent: "claude", Peer: identity.Peer{ID: laptop}, Kind: kinds.KindResult, ID: wire.NewMessageID(), Answer: wire.NewMessageID()}
		if !p.request(own) || len(p.Describe("claude").By) != 2 {
			t.Error("an answer to what the user asked counts against another peer")
		}
	})
}

// What waits for the owner is bounded for each peer, and for a day.
func TestApprovalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
		for _, id := range []identity.ID{desk, laptop} {
			rule := allowed(id, kinds.KindNotify)
			rule.Ask = true
			if err := p.Rules.Allow(rule); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 * maxApprovals {
			p.notify(desk)
		}
		if n := len(p.Approvals()); n != maxApprovals/2 {
			t.Errorf("%d of one peer wait", n)
		}
		m, _ := p.notify(laptop)
		all := p.Approvals()
		if last := all[len(all)-1]; last.Peer != laptop || last.Message != m.ID {
			t.Errorf("the other peer has no place: %+v", last)
		}
		if len(p.later()) != 0 {
			t.Error("what waits wakes")
		}
		if _, err := p.Decide(all[len(all)-1].ID, Yes); err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); len(p.later()) != 1 || p.later()[0].ID != m.ID {
			t.Errorf("yes wakes it for %+v", p.later())
		}
		time.Sleep(maxAskedFor)
		p.changed.Set()
		if synctest.Wait(); len(p.Approvals()) != 0 {
			t.Error("they wait for more than a day")
		}
	})
}

// A question counts against the peer that asks, and one that is not answered keeps the next ones
// of that peer from waking the session for a time.
func TestQuestionsCountToWhoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
		p.permit(desk)
		if err := p.Rules.SetAnswers(AnswersRule{}, true); err != nil {
			t.Fatal(err)
		}
		woke, _ := p.notify(desk)
		given := wire.NewMessageID()
		if err := p.CountSend(t.Context(), "claude", woke.ID, given); err != nil {
			t.Fatal(err)
		}
		p.Release("claude", desk, woke.ID)
		ask := func() bool {
			time.Sleep(time.Second)
			q := Message{Agent: "claude", Peer: identity.Peer{ID: laptop}, Kind: kinds.KindQuery, ID: wire.NewMessageID(), Answer: given}
			defer p.Release("claude", laptop, q.ID)
			return p.request(q)
		}
		n := 0
		for range 16 {
			if ask() {
				n++
			}
		}
		if s := p.Describe("claude"); n != 1 || s.Day != 2 || len(s.By) != 2 {
			t.Errorf("16 questions woke it %d times: %+v", n, s)
		}
		if p.NoteAnswer("claude", laptop); !ask() {
			t.Error("the question after one that was answered does not wake it")
		}
	})
}

// A peer that asks for approvals and gives up makes ten events a minute.
func TestApprovalEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir())
		rule := allowed(desk, kinds.KindNotify)
		rule.Ask = true
		if err := p.Rules.Allow(rule); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			m, _ := p.notify(desk)
			p.Release("claude", desk, m.ID)
		}
		if n := len(p.told()); n != 10 {
			t.Errorf("%d events", n)
		}
		time.Sleep(time.Minute)
		m, _ := p.notify(desk)
		if n := len(p.told()); n != 11 {
			t.Errorf("%d events after a minute", n)
		}
		if _, err := p.Decide(p.Approvals()[0].ID, Always); err != nil {
			t.Fatal(err)
		}
		if r, ok := p.Rules.findPermission("claude", desk, m.Kind); !ok || r.Ask {
			t.Errorf("after always: %+v", r)
		}
		if r, ok := p.Rules.findPermission("codex", desk, m.Kind); !ok || !r.Ask {
			t.Errorf("always for one session is for every one: %+v", r)
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
