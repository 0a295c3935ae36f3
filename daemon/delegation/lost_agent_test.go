package delegation

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
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

// A peer that answers no reports with receipts delays none to others, however many it is owed.
func TestSilentPeerDelaysNoReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := table(t)
		silent, other := identity.ID{1}, identity.ID{2}
		give := func(peer identity.ID) {
			d, _, err := ts.AddDelegation(t.Context(), &Delegation{Direction: client.Taken, Peer: peer, ID: wire.NewMessageID(), Agent: "claude-1", Reports: true, Created: time.Now()}, "task")
			if err != nil {
				t.Fatal(err)
			}
			ts.mu.Lock()
			d.state = client.TaskAccepted
			ts.mu.Unlock()
		}
		for range budget.Delegations.Peer {
			give(silent)
		}
		give(other)
		told := make(chan time.Time, 1)
		var mu sync.Mutex
		underWay, most := 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			underWay += n
			most = max(most, underWay)
		}
		ts.clock(t, func(ctx context.Context, d *Delegation) error {
			if d.Peer == other {
				told <- time.Now()
				return nil
			}
			count(1)
			defer count(-1)
			select {
			case <-time.After(5 * time.Second): // there is no receipt
			case <-ctx.Done():
			}
			return errors.New("no receipt")
		})
		ended := time.Now()
		ts.EndForLostSession("claude-1")
		if took := (<-told).Sub(ended); took > firstReportPause {
			t.Errorf("the other peer was told after %v", took)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if most != maxReportsToPeer {
			t.Errorf("%d reports to one peer at a time", most)
		}
	})
}
