package delegation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/schema"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// table opens a task table on disk; run it in a bubble to have its clock.
func table(t *testing.T) *Table {
	t.Helper()
	ts, err := OpenTable(t.Context(), statedb.New(t, schema.Migrate), registry.NewRegistry(), new(budget.Book), func(*Delegation) {}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

// reopen reads the table anew, as after a restart.
func (ts *Table) reopen(t *testing.T) *Table {
	t.Helper()
	again, err := OpenTable(t.Context(), ts.db, registry.NewRegistry(), new(budget.Book), func(*Delegation) {}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// clock runs the table's clock until the test ends.
func (ts *Table) clock(t *testing.T, report func(context.Context, *Delegation) error) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := ts.Run(ctx, report); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
}

func (ts *Table) enter(t *testing.T, direction client.TaskDirection, deadline time.Duration) *Delegation {
	t.Helper()
	e := &Delegation{Direction: direction, Peer: identity.ID{1}, ID: wire.NewMessageID(), Agent: "reviewer", Reports: true, Created: time.Now()}
	if deadline > 0 {
		e.Deadline = e.Created.Add(deadline)
	}
	if _, fresh, err := ts.AddDelegation(t.Context(), e, "mend it"); !fresh || err != nil {
		t.Fatal(fresh, err)
	}
	if err := ts.RecordAck(t.Context(), e, true, wire.Payload(`{"accepted":true,"estimated_ms":5}`), nil); err != nil {
		t.Fatal(err)
	}
	return e
}

func (ts *Table) is(t *testing.T, e *Delegation, want client.TaskState) {
	t.Helper()
	synctest.Wait()
	if got := ts.Status(e).State; got != want {
		t.Errorf("the state is %s, want %s", got, want)
	}
	now := ts.Find(e.Direction, e.Peer, e.ID)
	if again := ts.reopen(t).Find(e.Direction, e.Peer, e.ID); (again == nil) != (now == nil) || again != nil && again.state != want {
		t.Errorf("on disk it is %+v, want %s", again, want)
	}
}

func never(context.Context, *Delegation) error { panic("nothing is to be reported") }

func TestTasksExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := table(t)
		ts.clock(t, never)
		for _, direction := range []client.TaskDirection{client.Given, client.Taken} {
			short, none := ts.enter(t, direction, time.Minute), ts.enter(t, direction, 0)
			time.Sleep(time.Minute - time.Nanosecond)
			ts.is(t, short, client.TaskAccepted)
			time.Sleep(time.Nanosecond)
			ts.is(t, short, client.TaskExpired)
			time.Sleep(keptAfterDeadline - time.Nanosecond)
			ts.is(t, short, client.TaskExpired)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if ts.Find(direction, short.Peer, short.ID) != nil || ts.reopen(t).Find(direction, short.Peer, short.ID) != nil {
				t.Error("the entry stays after its time")
			}
			time.Sleep(keptWithoutDeadline - keptAfterDeadline - time.Minute - time.Nanosecond)
			ts.is(t, none, client.TaskAccepted)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if ts.Find(direction, none.Peer, none.ID) != nil {
				t.Error("an entry without deadline stays after a day")
			}
		}
		if _, active, _ := ts.agents.SummarizeLoad(); active != 0 {
			t.Errorf("%d tasks are active", active)
		}
	})
}

// An agent that has accepted a delegation works on one, at every moment: otherwise those of a
// peer would take the place, for an instant each, that is left for others.
func TestAcceptedDelegationIsOneOfItsAgents(t *testing.T) {
	ts := table(t)
	if _, _, err := ts.agents.Attach(new(jsonrpc.Conn), client.AttachParams{Name: "reviewer", MaxConcurrent: 2}, false, nil); err != nil {
		t.Fatal(err)
	}
	place, err := ts.agents.ReserveAgent(identity.ID{1}, false, kinds.KindDelegate, "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer ts.agents.ReleasePlace(place)
	e := &Delegation{Direction: client.Taken, Peer: identity.ID{1}, ID: wire.NewMessageID(), Agent: "reviewer", Reports: true, Created: time.Now()}
	if _, _, err := ts.AddDelegation(t.Context(), e, "mend it"); err != nil {
		t.Fatal(err)
	}
	if err := ts.RecordAck(t.Context(), e, true, wire.Payload(`{"accepted":true,"estimated_ms":5}`), place); err != nil {
		t.Fatal(err)
	}
	other, err := ts.agents.ReserveAgent(identity.ID{2}, false, kinds.KindQuery, "", "")
	if err != nil {
		t.Fatalf("another peer's query: %v", err)
	}
	ts.agents.ReleasePlace(other)
	ts.agents.ReleasePlace(place)
	if _, active, _ := ts.agents.SummarizeLoad(); active != 1 {
		t.Errorf("%d are active, want the delegation alone", active)
	}
}

func TestOrphansAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := table(t)
		reported := make(chan time.Time, 8)
		failures := 2
		ts.clock(t, func(_ context.Context, lost *Delegation) error {
			reported <- time.Now()
			if failures--; failures >= 0 {
				return errors.New("unreachable")
			}
			return nil
		})
		back, away := ts.enter(t, client.Taken, 0), ts.enter(t, client.Taken, 0)
		away.Agent = "planner"
		come := func(name string) *registry.Agent {
			a, _, err := ts.agents.Attach(new(jsonrpc.Conn), client.AttachParams{Name: name}, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			ts.UpdateAgentPresence(name)
			return a
		}
		planner, reviewer := come("planner"), come("reviewer")
		ts.agents.Detach(reviewer.Conn, ts.AgentsWithOpenWork)
		ts.UpdateAgentPresence("reviewer")
		time.Sleep(orphanedFor - time.Second)
		come("reviewer")
		ts.agents.Detach(planner.Conn, ts.AgentsWithOpenWork)
		ts.UpdateAgentPresence("planner")
		left := time.Now()
		time.Sleep(orphanedFor - time.Nanosecond)
		ts.is(t, back, client.TaskAccepted)
		ts.is(t, away, client.TaskAccepted)
		time.Sleep(time.Nanosecond)
		ts.is(t, away, client.TaskFailed)
		ts.is(t, back, client.TaskAccepted)
		time.Sleep(time.Hour)
		synctest.Wait()
		close(reported)
		var after []time.Duration
		for at := range reported {
			after = append(after, at.Sub(left)-orphanedFor)
		}
		if fmt.Sprint(after) != "[0s 5s 15s]" {
			t.Errorf("reported after %v", after)
		}
		if ts.reopen(t).Find(client.Taken, away.Peer, away.ID).owed {
			t.Error("the report is still owed")
		}
	})
}

// TestRestartedTasks: what a crash leaves.
func TestRestartedTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := table(t)
		sent := &Delegation{Direction: client.Given, Peer: identity.ID{1}, ID: wire.NewMessageID(), Content: [32]byte{7}, Chain: wire.Chain{Thread: "t", Hops: 2, Trace: "tr"}, Reports: true, Created: time.Now()}
		if _, _, err := ts.AddDelegation(t.Context(), sent, "mend it"); err != nil {
			t.Fatal(err)
		}
		taken := ts.enter(t, client.Taken, 0)
		again := ts.reopen(t)
		got := again.Find(client.Given, sent.Peer, sent.ID)
		if got.state != client.TaskUnknown || got.Content != sent.Content || got.Chain != sent.Chain || !got.Reports || !got.Created.Equal(sent.Created.Truncate(time.Millisecond)) {
			t.Errorf("%+v", got)
		}
		if _, active, _ := again.agents.SummarizeLoad(); active != 1 {
			t.Errorf("%d active", active)
		}
		reported := make(chan *Delegation, 1)
		again.clock(t, func(_ context.Context, lost *Delegation) error { reported <- lost; return nil })
		time.Sleep(orphanedFor)
		if lost := <-reported; lost.ID != taken.ID {
			t.Errorf("%+v", lost)
		}
	})
}

func TestTasksAreBounded(t *testing.T) {
	ts := table(t)
	var first *Delegation
	for i := range MaxDelegations {
		e := &Delegation{Direction: client.Given, Peer: identity.ID{1}, ID: wire.NewMessageID(), Created: time.Unix(int64(i), 0), Reports: true}
		if _, _, err := ts.AddDelegation(t.Context(), e, ""); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = e
		}
	}
	more := func() error {
		_, _, err := ts.AddDelegation(t.Context(), &Delegation{Direction: client.Given, Peer: identity.ID{1}, ID: wire.NewMessageID(), Reports: true}, "")
		return err
	}
	if err := more(); !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
		t.Fatal(err)
	}
	if _, err := ts.EndDelegation(t.Context(), first, Ending{State: client.TaskCompleted}); err != nil {
		t.Fatal(err)
	}
	if err := more(); err != nil {
		t.Fatal(err)
	}
	if ts.Find(client.Given, first.Peer, first.ID) != nil || len(ts.table) != MaxDelegations || len(ts.reopen(t).table) != MaxDelegations {
		t.Errorf("%d entries", len(ts.table))
	}
	ts.counted(t)
	ts.reopen(t).counted(t)
}

func TestOnlyTheFirstEndWins(t *testing.T) {
	ts := table(t)
	e := ts.enter(t, client.Given, 0)
	wins := make(chan client.TaskState, 8)
	var ends sync.WaitGroup
	for _, state := range []client.TaskState{client.TaskCompleted, client.TaskFailed, client.TaskCancelled, client.TaskExpired} {
		ends.Go(func() {
			won, err := ts.EndDelegation(t.Context(), e, Ending{State: state})
			if err != nil {
				t.Error(err)
			}
			if won {
				wins <- state
			}
		})
	}
	ends.Wait()
	close(wins)
	if len(wins) != 1 {
		t.Fatalf("%d ends won", len(wins))
	}
	if got := ts.reopen(t).Find(client.Given, e.Peer, e.ID).state; got != <-wins {
		t.Errorf("on disk it is %s", got)
	}
	if open, err := ts.RecordPartial(t.Context(), e, Partial{}); open || err != nil {
		t.Error(open, err)
	}
	if err := ts.SetState(t.Context(), e, client.TaskUnknown); err != nil {
		t.Error(err)
	}
	if got := ts.Status(e).State; !got.IsFinal() {
		t.Errorf("an end was undone: %s", got)
	}
}

// TestDroppedTaskMayBeginAgain: whatever comes between, disk and memory agree.
func TestDroppedTaskMayBeginAgain(t *testing.T) {
	ts, id := table(t), wire.NewMessageID()
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 20 {
				e, fresh, err := ts.AddDelegation(t.Context(), &Delegation{Direction: client.Given, Peer: identity.ID{1}, ID: id, Created: time.Now()}, "")
				if err != nil {
					t.Error(err)
					return
				}
				if fresh {
					if err := ts.DeleteUnsent(t.Context(), e); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	workers.Wait()
	if again := ts.reopen(t); len(ts.table) != 0 || len(again.table) != 0 {
		t.Errorf("%d entries in memory, %d on disk", len(ts.table), len(again.table))
	}
	if _, fresh, err := ts.AddDelegation(t.Context(), &Delegation{Direction: client.Given, Peer: identity.ID{1}, ID: id, Created: time.Now()}, ""); !fresh || err != nil {
		t.Error(fresh, err)
	}
	if again := ts.reopen(t); len(again.table) != 1 {
		t.Errorf("%d entries on disk", len(again.table))
	}
	ts.counted(t)
}

// counted fails the test unless the sizes are those of the table.
func (ts *Table) counted(t *testing.T) {
	t.Helper()
	ts.mu.Lock()
	defer ts.mu.Unlock()
	want := map[client.TaskDirection]map[identity.ID]int{client.Given: {}, client.Taken: {}}
	for _, one := range ts.table {
		want[one.Direction][one.Peer]++
	}
	if !reflect.DeepEqual(ts.sizes, want) {
		t.Errorf("counted %v, there are %v", ts.sizes, want)
	}
}

// TestADropIsWrittenFirst: an entry that cannot be dropped stays, as a restart finds it.
func TestADropIsWrittenFirst(t *testing.T) {
	ts := table(t)
	one, _, err := ts.AddDelegation(t.Context(), &Delegation{Direction: client.Given, Peer: identity.ID{1}, ID: wire.NewMessageID(), Created: time.Now()}, "task")
	if err != nil {
		t.Fatal(err)
	}
	statedb.Exec(t, ts.db, "CREATE TRIGGER kept BEFORE DELETE ON daemon_task BEGIN SELECT raise(ABORT, 'the disk is full'); END")
	if err := ts.DeleteUnsent(t.Context(), one); err == nil {
		t.Error("dropped")
	}
	if again := ts.reopen(t).Find(client.Given, one.Peer, one.ID); again == nil || ts.Find(client.Given, one.Peer, one.ID) != one || one.state != again.state {
		t.Errorf("%+v, after a restart %+v", one, again)
	}
	ts.counted(t)
	statedb.Exec(t, ts.db, "DROP TRIGGER kept")
	if err := ts.DeleteUnsent(t.Context(), one); err != nil {
		t.Error(err)
	}
	if len(ts.table) != 0 || len(ts.reopen(t).table) != 0 {
		t.Errorf("%d entries", len(ts.table))
	}
	ts.counted(t)
}

// TestDeadlinesOnASlowDisk: while the disk stands still deadlines pass all the same,
// also for a task whose end is being written, and what the disk says later is the same.
// holds: security.md#on-this-machine
func TestDeadlinesOnASlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := table(t)
		ts.clock(t, never)
		idle, busy := ts.enter(t, client.Given, time.Minute), ts.enter(t, client.Given, time.Minute)
		slow, disk := make(chan struct{}), make(chan struct{})
		var writers sync.WaitGroup
		writers.Go(func() {
			ts.db.Write(t.Context(), false, func(*store.Tx) error { close(slow); <-disk; return nil })
		})
		<-slow
		writers.Go(func() {
			if won, err := ts.EndDelegation(t.Context(), busy, Ending{State: client.TaskCompleted, Outcome: "done"}); won || err != nil {
				t.Errorf("an end after the deadline: %t, %v", won, err)
			}
		})
		synctest.Wait()
		begun := time.Now()
		for _, e := range []*Delegation{idle, busy} {
			if err := ts.WaitForEnd(t.Context(), e, nil, nil); err != nil || time.Since(begun) != time.Minute {
				t.Errorf("who waits hears after %s: %v", time.Since(begun), err)
			}
		}
		close(disk)
		writers.Wait()
		ts.is(t, idle, client.TaskExpired)
		ts.is(t, busy, client.TaskExpired)
	})
}

func TestBeginning(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "é": "é",
		strings.Repeat("x", client.MaxBeginning):          strings.Repeat("x", client.MaxBeginning),
		strings.Repeat("x", client.MaxBeginning+1):        strings.Repeat("x", client.MaxBeginning-3) + "…",
		strings.Repeat("x", client.MaxBeginning-4) + "語語": strings.Repeat("x", client.MaxBeginning-4) + "…",
		strings.Repeat("x", client.MaxBeginning-6) + "語語": strings.Repeat("x", client.MaxBeginning-6) + "語語",
		strings.Repeat("é", client.MaxBeginning/2):        strings.Repeat("é", client.MaxBeginning/2),
	} {
		if got := client.ClipText(text, client.MaxBeginning); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
