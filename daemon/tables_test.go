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
