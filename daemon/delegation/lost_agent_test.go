package delegation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/registry"
)

// A delegation whose agent is away says since when, and until when the table waits: ten minutes, or its
// deadline. After a restart both begin anew.
func TestAwayAgentIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := table(t)
		ts.clock(t, func(context.Context, *Delegation) error { return nil })
		attach := func(ts *Table) *registry.Agent {
			a, _, err := ts.agents.Attach(new(jsonrpc.Conn), client.AttachParams{Name: "reviewer"}, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			ts.UpdateAgentPresence("reviewer")
			return a
		}
		shown := func(ts *Table, d *Delegation, since, until time.Time) {
			t.Helper()
			task, err := ts.DescribeTask(t.Context(), d, false)
			if err != nil || !task.AgentAwaySince.Equal(since) || !task.AgentAwaitedUntil.Equal(until) || !ts.AgentAwaySince(d).Equal(since) {
				t.Errorf("away since %s, awaited until %s, want %s and %s; %v", task.AgentAwaySince, task.AgentAwaitedUntil, since, until, err)
			}
		}
		a := attach(ts)
		open, brief, given := ts.enter(t, client.Taken, 0), ts.enter(t, client.Taken, time.Hour), ts.enter(t, client.Given, 0)
		for _, d := range []*Delegation{open, brief, given} {
			shown(ts, d, time.Time{}, time.Time{})
		}
		ts.agents.Detach(a.Conn, ts.AgentsWithOpenWork)
		ts.UpdateAgentPresence("reviewer")
		left := time.Now()
		time.Sleep(time.Minute)
		shown(ts, open, left, left.Add(orphanedFor))
		shown(ts, brief, left, brief.Deadline)
		shown(ts, given, time.Time{}, time.Time{}) // its agent of the name is one here, which delegated
		again := ts.reopen(t)
		reopened := time.Now()
		shown(again, again.Find(client.Taken, open.Peer, open.ID), reopened, reopened.Add(orphanedFor))
		attach(again)
		shown(again, again.Find(client.Taken, open.Peer, open.ID), time.Time{}, time.Time{})
		time.Sleep(orphanedFor)
		ts.is(t, open, client.TaskFailed)
		shown(ts, open, time.Time{}, time.Time{})
	})
}
