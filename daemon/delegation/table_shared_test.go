package delegation

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// holds: security.md#the-budget
func TestDelegationsAreShared(t *testing.T) {
	ts := table(t)
	begin := func(from byte) error {
		_, _, err := ts.AddDelegation(t.Context(), &Delegation{Direction: client.Taken, Peer: identity.ID{from}, ID: wire.NewMessageID(), Agent: "reviewer", Reports: true, Created: time.Now()}, "task")
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
	for _, one := range ts.List(nil, func(t *Delegation, _ client.TaskState) bool { return t.Peer == identity.ID{1} })[:2] {
		if _, err := ts.EndDelegation(t.Context(), one, Ending{State: client.TaskFailed}); err != nil {
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

// A delegation that cannot be entered pushes none out.
func TestAnEntryThatFailsEvictsNone(t *testing.T) {
	ts := table(t)
	for range MaxDelegations {
		one, _, err := ts.AddDelegation(t.Context(), &Delegation{Direction: client.Given, Peer: identity.ID{1}, ID: wire.NewMessageID(), Created: time.Now()}, "task")
		if err != nil {
			t.Fatal(err)
		}
		ts.mu.Lock()
		ts.applyEnd(one, Ending{State: client.TaskFailed})
		ts.mu.Unlock()
	}
	before := len(ts.reopen(t).table)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := ts.AddDelegation(over, &Delegation{Direction: client.Given, Peer: identity.ID{1}, ID: wire.NewMessageID(), Created: time.Now()}, "task"); err == nil {
		t.Fatal("it is entered")
	}
	if n := len(ts.table); n != MaxDelegations || before != MaxDelegations {
		t.Errorf("%d are left of %d, %d on disk", n, MaxDelegations, before)
	}
	ts.counted(t)
}

// What becomes of a delegation is written before anybody sees it.
func TestStatesAreWrittenFirst(t *testing.T) {
	ts := table(t)
	for state, move := range map[client.TaskState]func(*Delegation) error{
		client.TaskUnknown: func(one *Delegation) error { return ts.SetState(t.Context(), one, client.TaskUnknown) },
		client.TaskRefused: func(one *Delegation) error { return ts.RecordRefusal(t.Context(), one, "no") },
	} {
		one, _, err := ts.AddDelegation(t.Context(), &Delegation{Direction: client.Given, Peer: identity.ID{1}, ID: wire.NewMessageID(), Created: time.Now()}, "task")
		if err != nil {
			t.Fatal(err)
		}
		var during []client.TaskState
		ts.db.ObserveWrites(func(store.Cost) {
			s := ts.Status(one).State
			during = append(during, s)
		})
		if err := move(one); err != nil {
			t.Fatal(err)
		}
		if after := ts.Status(one).State; after != state || !slices.Equal(during, []client.TaskState{client.TaskSent}) {
			t.Errorf("%s: %v while it is written, %s afterwards", state, during, after)
		}
		ts.db.ObserveWrites(nil)
		if again := ts.reopen(t).Find(client.Given, one.Peer, one.ID); again == nil || again.state != state {
			t.Errorf("%s: after a restart %+v", state, again)
		}
	}
}

// Work is open with a peer, in either direction, until the last delegation is over.
func TestOpenWithAPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := table(t)
		ts.clock(t, never)
		peer := identity.ID{1}
		want := func(when string, open bool) {
			t.Helper()
			if ts.HasOpenWith(peer) != open || ts.HasOpenWith(identity.ID{2}) {
				t.Errorf("%s: open %v, with another %v", when, ts.HasOpenWith(peer), ts.HasOpenWith(identity.ID{2}))
			}
		}
		want("at first", false)
		ts.enter(t, client.Given, 10*time.Minute)
		want("given", true)
		time.Sleep(10*time.Minute - time.Nanosecond)
		want("before its deadline", true)
		time.Sleep(time.Nanosecond)
		synctest.Wait() // both wake at the deadline
		want("at its deadline", false)
		e := ts.enter(t, client.Taken, 0)
		want("taken", true)
		if _, err := ts.EndDelegation(t.Context(), e, Ending{State: client.TaskCompleted, Outcome: "mended"}); err != nil {
			t.Fatal(err)
		}
		want("ended", false)
	})
}
