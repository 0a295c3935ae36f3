package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

func notifyOf(text string) *wire.Envelope {
	return &wire.Envelope{ID: wire.NewMessageID(), Kind: kinds.KindNotify, Payload: wire.Payload(`{"topic":"` + text + `"}`), Thread: "t", Hops: 3}
}

func TestRepeatsForgetAfterTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, from, env := newRepeats(new(budget.Book)), identity.ID{1}, notifyOf("a")
		first, fresh, err := r.begin(from, env)
		if !fresh || err != nil {
			t.Fatal(fresh, err)
		}
		waited := make(chan outcome)
		again, fresh, err := r.begin(from, env)
		if fresh || err != nil {
			t.Fatal(fresh, err)
		}
		go func() { waited <- r.wait(t.Context(), again) }()
		synctest.Wait()
		r.finish(first, outcome{state: wire.Held})
		if out := <-waited; out.state != wire.Held {
			t.Errorf("%+v", out)
		}
		if c, ok := r.find(env.ID); !ok || c.thread != "t" || c.hops != 3 {
			t.Errorf("%+v %v", c, ok)
		}
		other := *env
		other.Payload = wire.Payload(`{"topic":"b"}`)
		if _, _, err := r.begin(from, &other); !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) {
			t.Error(err)
		}
		if _, fresh, _ := r.begin(identity.ID{2}, env); !fresh {
			t.Error("another peer's message of the same id counts as a repeat")
		}
		time.Sleep(repeatsFor - time.Nanosecond)
		if _, fresh, _ := r.begin(from, env); fresh {
			t.Error("forgotten too early")
		}
		time.Sleep(time.Nanosecond)
		if _, fresh, _ := r.begin(from, env); !fresh {
			t.Error("remembered too long")
		}
	})
}

func TestRepeatsAreBounded(t *testing.T) {
	r, from := newRepeats(new(budget.Book)), identity.ID{1}
	first := notifyOf("first")
	r.begin(from, first)
	for range budget.Repeats.Peer {
		r.begin(from, notifyOf("more"))
	}
	if n := len(r.peers[from].order); int64(n) != budget.Repeats.Peer || r.n != n || len(r.peers[from].runs) != n {
		t.Errorf("%d, %d and %d entries", n, r.n, len(r.peers[from].runs))
	}
	if _, fresh, _ := r.begin(from, first); !fresh {
		t.Error("the oldest stays")
	}
	r.n = int(budget.Repeats.All) // as if other peers held the rest
	r.begin(identity.ID{2}, notifyOf("other"))
	if int64(r.n) != budget.Repeats.All-budget.Repeats.Peer/8+1 {
		t.Errorf("%d in all", r.n)
	}
	r.purge(from)
	if r.peers[from] != nil {
		t.Error("purge leaves some")
	}
}

func TestRefusalsAreForgotten(t *testing.T) {
	r, from, env := newRepeats(new(budget.Book)), identity.ID{1}, notifyOf("a")
	first, _, _ := r.begin(from, env)
	r.forget(from, first, outcome{err: kinds.Errorf(kinds.Overloaded, "full")})
	if _, fresh, _ := r.begin(from, env); !fresh || r.n != 1 {
		t.Errorf("fresh %v, %d entries", fresh, r.n)
	}
}

func TestDiscoveriesLastAMinuteAndARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, key, boot := newAbilities(), abilityKey{identity.ID{1}, ""}, wire.Boot{1}
		c.put(key, boot, &client.Answer{})
		if c.get(key, boot) == nil || c.get(key, wire.Boot{2}) != nil || c.get(abilityKey{identity.ID{1}, "planner"}, boot) != nil {
			t.Error("another answer than the one of this run")
		}
		time.Sleep(abilitiesFor)
		if c.get(key, boot) != nil {
			t.Error("it lasts too long")
		}
		for i := range 2 * maxAbilities {
			c.put(abilityKey{identity.ID{1}, fmt.Sprint(i)}, boot, &client.Answer{})
		}
		if len(c.found) > maxAbilities {
			t.Errorf("%d entries", len(c.found))
		}
		c.purge(identity.ID{1})
		if len(c.found) != 0 {
			t.Error("purge leaves some")
		}
	})
}

// held fills the inbox with messages of a peer until it is refused, at most ten
// times its share, and returns how many were held.
func fillInbox(t *testing.T, b *inbox, from byte, kind string, size int) (held int64) {
	t.Helper()
	env := &wire.Envelope{V: 1, From: identity.ID{from}, To: identity.ID{2}, Kind: kind, Payload: wire.Payload(`{"topic":"t","data":"` + long(size) + `"}`)}
	for range 10 * budget.Inbox.Peer {
		env.ID = wire.NewMessageID()
		if err := b.hold(t.Context(), env, ""); errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
			return held
		} else if err != nil {
			t.Fatal(err)
		}
		held++
	}
	t.Fatal("ten times a peer's share was held")
	return 0
}

func openedInbox(t *testing.T, ts *tasks) *inbox {
	t.Helper()
	b, err := openInbox(t.Context(), ts.db, &budget.Book{Peers: func() int { return 4 }}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestInboxIsShared(t *testing.T) {
	ts := table(t)
	b := openedInbox(t, ts)
	if n := fillInbox(t, b, 1, kinds.KindNotify, 10); n != budget.Inbox.Peer {
		t.Errorf("%d messages of one peer are held, want %d", n, budget.Inbox.Peer)
	}
	// What was asked for is kept aside, and other peers have their own share.
	if n := fillInbox(t, b, 1, kinds.KindResult, 10); n != budget.Results.Peer {
		t.Errorf("beside a full inbox %d results are held, want %d", n, budget.Results.Peer)
	}
	if n := fillInbox(t, b, 3, kinds.KindNotify, 1<<20); n != 15 {
		t.Errorf("%d messages of 1 MiB of another peer are held, want 15", n)
	}
	b = openedInbox(t, ts) // as after a restart
	if n := fillInbox(t, b, 1, kinds.KindNotify, 10); n != 0 {
		t.Errorf("after a restart %d more are held", n)
	}
	if n := fillInbox(t, b, 3, kinds.KindNotify, 1<<20); n != 0 {
		t.Errorf("after a restart %d more are held", n)
	}
	for _, peer := range []identity.ID{{1}, {3}} {
		if err := b.purge(t.Context(), peer); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range []*budget.Account{b.unasked.messages, b.unasked.bytes, b.asked.messages, b.asked.bytes} {
		if n := a.Held(identity.ID{1}) + a.Held(identity.ID{3}); n != 0 || len(b.held) != 0 {
			t.Errorf("%s: %d held after purge", a.Row().Name, n)
		}
	}
}

// A removal makes all other writers wait, so it goes in slices.
func TestRemovalsAreSmallWrites(t *testing.T) {
	ts := table(t)
	b := openedInbox(t, ts)
	fillInbox(t, b, 1, kinds.KindNotify, 10)
	largest := 0
	ts.db.Observe(func(c store.Cost) { largest = max(largest, c.Rows) })
	removed := 0
	for removed < int(budget.Inbox.Peer) {
		list, err := b.list(t.Context(), &client.InboxParams{Limit: inboxMost}, nil, nil, 64<<20)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.mark(t.Context()); err != nil {
			t.Fatal(err)
		}
		n, err := b.ack(t.Context(), &client.AckParams{UpTo: list.Messages[len(list.Messages)-1].Seq}, nil)
		if err != nil || n == 0 {
			t.Fatalf("%d removed: %v", n, err)
		}
		removed += n
	}
	if removed != int(budget.Inbox.Peer) || len(b.held) != 0 {
		t.Errorf("%d removed, %d left", removed, len(b.held))
	}
	if largest > changedAtOnce {
		t.Errorf("one write changed %d rows, want at most %d", largest, changedAtOnce)
	}
}

func TestDelegationsAreShared(t *testing.T) {
	ts := table(t)
	begin := func(from byte) error {
		_, _, err := ts.begin(t.Context(), &task{direction: client.Taken, peer: identity.ID{from}, id: wire.NewMessageID(), agent: "reviewer", reports: true, created: time.Now()}, "task")
		return err
	}
	var err error
	n := 0
	for ; err == nil && n < 10*int(budget.Delegations.Peer); n++ {
		err = begin(1)
	}
	if !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) || n-1 != int(budget.Delegations.Peer) {
		t.Fatalf("%d taken, then %v", n-1, err)
	}
	if err := begin(3); err != nil {
		t.Errorf("another peer: %v", err)
	}
	for _, one := range ts.list(func(t *task) bool { return t.peer == identity.ID{1} })[:2] {
		if _, err := ts.end(t.Context(), one, ending{state: client.TaskFailed}); err != nil {
			t.Fatal(err)
		}
	}
	ts = ts.reopen(t)
	for want := range 3 {
		if err := begin(1); (err == nil) != (want < 2) {
			t.Errorf("delegation %d after two have ended: %v", want+1, err)
		}
	}
}

func TestBucketsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &budget.Book{}
		g := newGate(identity.NewTrust(), &config.Config{Limits: config.Limits{Rate: []config.Rate{{Peer: "*", Kind: "*", PerSecond: 1, Burst: 1}}}}, book, book.OpenLog(slog.New(slog.DiscardHandler)))
		allow := func(n int) error {
			return g.allow(identity.Peer{ID: identity.ID{byte(n), byte(n >> 8), byte(n >> 16)}}, kinds.KindQuery)
		}
		for n := range maxBuckets + 1 {
			if err := allow(n); err != nil {
				t.Fatal(err)
			}
		}
		if len(g.buckets) > maxBuckets {
			t.Errorf("%d buckets", len(g.buckets))
		}
		if err := allow(maxBuckets); !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if err := allow(maxBuckets); err != nil {
			t.Error(err)
		}
	})
}

// A delegation that cannot be entered pushes none out.
func TestAnEntryThatFailsEvictsNone(t *testing.T) {
	ts := table(t)
	for range maxTasks {
		one, _, err := ts.begin(t.Context(), &task{direction: client.Given, peer: identity.ID{1}, id: wire.NewMessageID(), created: time.Now()}, "task")
		if err != nil {
			t.Fatal(err)
		}
		ts.mu.Lock()
		ts.settle(one, ending{state: client.TaskFailed})
		ts.mu.Unlock()
	}
	before := len(ts.reopen(t).table)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := ts.begin(over, &task{direction: client.Given, peer: identity.ID{1}, id: wire.NewMessageID(), created: time.Now()}, "task"); err == nil {
		t.Fatal("it is entered")
	}
	if n := len(ts.table); n != maxTasks || before != maxTasks {
		t.Errorf("%d are left of %d, %d on disk", n, maxTasks, before)
	}
	ts.counted(t)
}

// What becomes of a delegation is written before anybody sees it.
func TestStatesAreWrittenFirst(t *testing.T) {
	ts := table(t)
	for state, move := range map[client.TaskState]func(*task) error{
		client.TaskUnknown: func(one *task) error { return ts.set(t.Context(), one, client.TaskUnknown) },
		client.TaskRefused: func(one *task) error { return ts.refuse(t.Context(), one, "no") },
	} {
		one, _, err := ts.begin(t.Context(), &task{direction: client.Given, peer: identity.ID{1}, id: wire.NewMessageID(), created: time.Now()}, "task")
		if err != nil {
			t.Fatal(err)
		}
		var during []client.TaskState
		ts.db.Observe(func(store.Cost) {
			s, _ := ts.stateOf(one)
			during = append(during, s)
		})
		if err := move(one); err != nil {
			t.Fatal(err)
		}
		if after, _ := ts.stateOf(one); after != state || !slices.Equal(during, []client.TaskState{client.TaskSent}) {
			t.Errorf("%s: %v while it is written, %s afterwards", state, during, after)
		}
		ts.db.Observe(nil)
		if again := ts.reopen(t).get(client.Given, one.peer, one.id); again == nil || again.state != state {
			t.Errorf("%s: after a restart %+v", state, again)
		}
	}
}
