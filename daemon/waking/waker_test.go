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
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// played is a Waker whose sessions a test plays.
type played struct {
	*Waker
	t   *testing.T
	log await.Output // what the Waker says

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
	db := statedb.Open(t, filepath.Join(dir, "state.db"), schema.Migrate)
	p := &played{t: t}
	var err error
	p.Waker, err = OpenWaker(t.Context(), Config{
		Rules: openRules(t, dir), DB: db, Agents: func() *config.Agents { return new(config.Agents) },
		Wakers: func(string) []identity.ID { return nil }, Name: func(id identity.ID) string { return id.Label() },
		Tell: p.hear, Save: func(f func() error) error { return f() }, Log: slog.New(slog.NewTextHandler(&p.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	p.Attach("claude", false)
	return p
}

// inBubble runs a test with a virtual clock, and with what play returns.
func inBubble(t *testing.T, test func(*testing.T, *played)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, play(t, t.TempDir())) })
}

func (p *played) allow(rules ...Permission) {
	p.t.Helper()
	p.Rules.allow(p.t, rules...)
}

func (p *played) permit(peers ...identity.ID) {
	p.t.Helper()
	for _, id := range peers {
		p.allow(allowed(id, kinds.KindNotify))
	}
}

// asks lets notices of a peer wake each session after an approval.
func (p *played) asks(peers ...identity.ID) {
	p.t.Helper()
	for _, id := range peers {
		rule := allowed(id, kinds.KindNotify)
		rule.Ask = true
		p.allow(rule)
	}
}

// mute keeps everyone from waking claude for a time.
func (p *played) mute(d time.Duration) {
	p.t.Helper()
	if err := p.Rules.Mute("claude", time.Now().Add(d)); err != nil {
		p.t.Fatal(err)
	}
}

// decide answers an approval, and the answer must count.
func (p *played) decide(id string, answer Answer) Approval {
	p.t.Helper()
	a, err := p.Decide(id, answer)
	if err != nil {
		p.t.Fatal(err)
	}
	return a
}

// refuses reports whether an answer to an approval is refused with a code.
func (p *played) refuses(id string, answer Answer, code kinds.Code) bool {
	_, err := p.Decide(id, answer)
	return errors.Is(err, &kinds.Error{Code: code})
}

// expectLater checks which messages woke a session after their Request.
func (p *played) expectLater(when string, want ...Message) {
	p.t.Helper()
	synctest.Wait()
	if got := p.later(); !slices.EqualFunc(got, want, func(a, b Message) bool { return a.key() == b.key() }) {
		p.t.Errorf("%s woken for %+v, want %+v", when, got, want)
	}
}

// asked returns what waits for the owner's word, without what has it.
func (p *played) asked() []Approval {
	return slices.DeleteFunc(p.Approvals(), func(a Approval) bool { return a.Approved })
}

// notify asks whether a notify of a peer may wake claude, and reports whether it may at once.
func (p *played) notify(from identity.ID) (Message, bool) {
	m := Message{Agent: "claude", Peer: identity.Peer{ID: from, Name: "x"}, Kind: kinds.KindNotify, ID: wire.NewMessageID()}
	return m, p.request(m)
}

func (p *played) request(m Message) bool {
	return p.Request(p.t.Context(), m, func(context.Context, client.WakeGrant) Outcome {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.late = append(p.late, m)
		return Outcome{Posted: true}
	}) != nil
}

// send counts what claude sends to laptop because of a message.
func (p *played) send(from identity.ID, parent, id wire.MessageID) error {
	return p.CountSend(p.t.Context(), from, parent, &wire.Envelope{FromAgent: "claude", To: laptop, ID: id})
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

// One message is in a session at a time, and none wakes it within 250 ms of another. Of those
// that wait the one goes next whose peer has woken the session least, and a peer has half of the
// places.
// holds: security.md#agents-on-this-machine
func TestMessagesWaitForEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
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
		time.Sleep(busyFor / 2)
		p.expectLater("while a message is in it")
		p.Acknowledge("claude", desk, first.ID)
		p.expectLater("at once", other)
		p.Release("claude", laptop, other.ID)
		time.Sleep(postPause - 1)
		p.expectLater("within 250 ms", other)
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
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk)
		m, now := p.notify(desk)
		if !now || p.request(m) {
			t.Error("twice")
		}
		p.Finish(t.Context(), m, Outcome{})
		if s := p.Describe("claude"); s.Day != 0 {
			t.Errorf("a turn that was none counts: %+v", s)
		}
		time.Sleep(time.Second)
		if !p.request(m) {
			t.Error("what was not posted may not be tried again")
		}
		p.Finish(t.Context(), m, Outcome{Posted: true})
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
		p.Attach("claude", false)
		if p.ForgetPeer(desk); p.Describe("claude").Day != 0 {
			t.Error("turns of a forgotten peer count")
		}
		if _, now := p.notify(desk); now {
			t.Error("a forgotten peer wakes it")
		}
	})
}

// What a woken turn sends counts against the peer that woke it, as do the turns that follow.
// holds: security.md#agents-on-this-machine
func TestSendsOfAWokenTurn(t *testing.T) {
	inAskedBubble(t, func(t *testing.T, p *played) {
		p.permit(desk)
		woke, _ := p.notify(desk)
		id := wire.NewMessageID()
		for range 3 { // a repeat is one
			if err := p.send(desk, woke.ID, id); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 { // what the user asks for counts against nobody
			if err := p.send(desk, wire.NewMessageID(), wire.NewMessageID()); err != nil {
				t.Fatal(err)
			}
		}
		p.Release("claude", desk, woke.ID)
		time.Sleep(time.Second)
		answer := Message{Agent: "claude", Peer: identity.Peer{ID: laptop}, Kind: kinds.KindResult, ID: wire.NewMessageID(), Delegation: id}
		if !p.request(answer) {
			t.Fatal("the answer does not wake it")
		}
		if s := p.Describe("claude"); s.Day != 2 || len(s.By) != 1 || s.By[0].Peer != desk {
			t.Errorf("%+v", s)
		}
		n := 1
		for ; n < 200; n++ {
			if err := p.send(laptop, answer.ID, wire.NewMessageID()); err != nil {
				if !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
					t.Error(err)
				}
				break
			}
		}
		if n != 50 {
			t.Errorf("%d messages were sent", n)
		}
		p.Release("claude", laptop, answer.ID)
		time.Sleep(time.Second)
		own := Message{Agent: "claude", Peer: identity.Peer{ID: laptop}, Kind: kinds.KindResult, ID: wire.NewMessageID(), Delegation: wire.NewMessageID()}
		if !p.request(own) || len(p.Describe("claude").By) != 2 {
			t.Error("an answer to what the user asked counts against another peer")
		}
	})
}

// A query is asked anew when it is repeated, and counts as often, also after a restart.
// holds: security.md#agents-on-this-machine
func TestARepeatedQueryCountsEachTime(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := play(t, dir)
		p.permit(desk)
		woke, _ := p.notify(desk)
		query := wire.Envelope{FromAgent: "claude", To: laptop, Kind: kinds.KindQuery, ID: wire.NewMessageID()}
		n := 0
		for ; n < 200 && p.CountSend(t.Context(), desk, woke.ID, &query) == nil; n++ {
		}
		if n != 50 {
			t.Errorf("one query was asked %d times", n)
		}
		question := query
		question.ID, question.Ref = wire.NewMessageID(), &woke.ID
		if err := p.CountSend(t.Context(), desk, woke.ID, &question); err == nil {
			t.Error("a question about a delegation counts nothing")
		}
		time.Sleep(time.Hour)
		for range 2 {
			if err := p.CountSend(t.Context(), desk, woke.ID, &question); err != nil || p.countCharges("claude", true, time.Now().Add(-time.Hour))[desk] != 1 {
				t.Errorf("a question that is repeated counts each time: %v", err)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if n := play(t, dir).countCharges("claude", true, time.Time{}); n[desk] != 50+1 {
			t.Errorf("%d after a restart", n[desk])
		}
	})
}

// A query that comes again when it is over wakes the session again, and counts as often, also after a
// restart. One that is still open does not, and neither does a message of another kind.
func TestAQueryThatIsAskedAnewWakesAgain(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := play(t, dir)
		p.permit(desk)
		p.allow(allowed(desk, kinds.KindQuery))
		query := Message{Agent: "claude", Peer: identity.Peer{ID: desk, Name: "x"}, Kind: kinds.KindQuery, ID: wire.NewMessageID()}
		notice := query
		notice.Kind, notice.ID = kinds.KindNotify, wire.NewMessageID()
		for i, m := range []Message{query, query, query, notice} {
			if !p.request(m) {
				t.Errorf("%d: a %s wakes nobody", i, m.Kind)
			}
			if p.request(m) || p.Describe("claude").Waiting != 0 {
				t.Errorf("%d: a %s that is open wakes again, or waits to", i, m.Kind)
			}
			p.Release("claude", desk, m.ID)
			time.Sleep(time.Second)
		}
		if p.request(notice) {
			t.Error("a notice that comes again wakes again")
		}
		if !p.request(query) {
			t.Fatal("the query wakes nobody")
		}
		p.Finish(t.Context(), query, Outcome{}) // it was not posted after all
		if n := p.Describe("claude").Day; n != 4 {
			t.Errorf("%d turns, want 4", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if n := play(t, dir).countCharges("claude", false, time.Time{}); n[desk] != 4 {
			t.Errorf("%d turns after a restart, want 4", n[desk])
		}
	})
}

// A message under the id of one of another peer's is another one, also when that is long gone.
// holds: security.md#agents-on-this-machine
func TestSendsCountToTheSenderOfTheirParent(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk, laptop)
		m, _ := p.notify(desk)
		p.Release("claude", desk, m.ID)
		time.Sleep(time.Second)
		m.Peer.ID = laptop
		if !p.request(m) {
			t.Error("the second one does not wake it")
		}
		onDisk, err := store.ReadValue(t.Context(), p.DB, func(tx *store.Tx) ([]*charge, error) { return readCharges(tx, time.Time{}) })
		if err != nil || len(onDisk) != 2 {
			t.Errorf("%d turns are on disk, %v", len(onDisk), err)
		}
		if err := p.send(laptop, m.ID, wire.NewMessageID()); err != nil {
			t.Fatal(err)
		}
		if n := p.countCharges("claude", true, time.Time{}); n[laptop] != 1 || n[desk] != 0 {
			t.Errorf("it counts as %v", n)
		}
		p.Finish(t.Context(), m, Outcome{})
		if n := p.countCharges("claude", false, time.Time{}); n[laptop] != 0 || n[desk] != 1 {
			t.Errorf("turns: %v", n)
		}
	})
}

// A question counts against the peer that asks, and one that is not answered keeps the next ones
// of that peer from waking the session for a time.
// holds: security.md#agents-on-this-machine
func TestQuestionsCountToWhoAsks(t *testing.T) {
	inAskedBubble(t, func(t *testing.T, p *played) {
		p.permit(desk)
		woke, _ := p.notify(desk)
		given := wire.NewMessageID()
		if err := p.send(desk, woke.ID, given); err != nil {
			t.Fatal(err)
		}
		p.Release("claude", desk, woke.ID)
		ask := func() bool {
			time.Sleep(time.Second)
			q := Message{Agent: "claude", Peer: identity.Peer{ID: laptop}, Kind: kinds.KindQuery, ID: wire.NewMessageID(), Delegation: given}
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
