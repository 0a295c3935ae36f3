package delegation

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/schema"
	"github.com/acpd/acpd/integration/statedb"
)

// TestClockIsSetBetweenRuns: where the wall clock is a day earlier or later in the next
// run nothing that was accepted is gone, deadlines are kept by the wall clock, and only
// what is over ends.
func TestClockIsSetBetweenRuns(t *testing.T) {
	const day, some = 24 * time.Hour, 5
	for name, change := range map[string]time.Duration{"back": -day, "forward": day} {
		path := filepath.Join(t.TempDir(), name)
		run := func(at time.Duration, f func(t *testing.T, ts *Table)) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(at) // each bubble begins at the same instant
				ts, err := OpenTable(t.Context(), statedb.Open(t, path, schema.Migrate), registry.NewRegistry(), new(budget.Book), func(*Delegation) {}, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				f(t, ts)
			})
		}
		run(2*day, func(t *testing.T, ts *Table) {
			for range some {
				ts.enter(t, client.Given, time.Hour)
				ts.enter(t, client.Given, 3*day)
			}
		})
		run(2*day+change, func(t *testing.T, ts *Table) {
			ctx, end := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- ts.Run(ctx, func(context.Context, *Delegation) error { return nil }) }()
			want := func(when string, open, expired int) {
				t.Helper()
				synctest.Wait()
				states := make(map[client.TaskState]int)
				for _, e := range ts.List(nil, func(*Delegation, client.TaskState) bool { return true }) {
					state := ts.Status(e).State
					states[state]++
				}
				if states[client.TaskExpired] != expired || states[client.TaskAccepted] != open {
					t.Errorf("%s, %s: the delegations are %v, want %d open and %d expired", name, when, states, open, expired)
				}
			}
			if change > 0 {
				want("at once", some, 0) // those of an hour are over, and so long ago that they are forgotten
				time.Sleep(2*day - time.Second)
				want("just before the others' deadline", some, 0)
				time.Sleep(2 * time.Second)
				want("after the others' deadline", 0, some)
			} else {
				want("at once", 2*some, 0)
				time.Sleep(day + time.Hour - time.Second)
				want("before the deadline", 2*some, 0)
				time.Sleep(2 * time.Second)
				want("after the deadline", some, some)
			}
			end()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
