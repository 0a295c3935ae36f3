package delegation

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// The peer of a delegation that was abandoned is told again and again, at a pace, until it has answered
// once; after a restart too, and no longer than the entry is kept.
func TestAbandonedIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := table(t)
		var after []time.Duration
		began := time.Now()
		failures := 3
		report := func(_ context.Context, d *Delegation) error {
			if ts.Status(d).State != client.TaskCancelled {
				t.Errorf("%+v is reported", ts.Status(d))
			}
			after = append(after, time.Since(began))
			if failures--; failures >= 0 {
				return errors.New("unreachable")
			}
			return nil
		}
		ts.clock(t, report)
		abandoned, ended := ts.enter(t, client.Given, 0), ts.enter(t, client.Given, 0)
		id := wire.NewMessageID()
		for d, e := range map[*Delegation]Ending{abandoned: NewAbandonedEnding(id, "plans changed"), ended: {State: client.TaskCancelled, ID: wire.NewMessageID()}} {
			if won, err := ts.EndDelegation(t.Context(), d, e); !won || err != nil {
				t.Fatal(won, err)
			}
		}
		if s := ts.Status(abandoned); s.EndID != id {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Minute)
		again := ts.reopen(t)
		if kept := again.Find(client.Given, abandoned.Peer, abandoned.ID); kept.owed {
			t.Error("what was told is owed after a restart")
		}
		if got := fmt.Sprint(after); got != "[5s 10s 20s 40s]" {
			t.Errorf("told after %s", got)
		}
	})
}

// A table that is full of abandoned delegations, of peers that are gone, takes new ones.
func TestAbandonedMakesRoom(t *testing.T) {
	ts := table(t)
	for range MaxDelegations {
		d := &Delegation{Direction: client.Given, Peer: identity.ID{1}, ID: wire.NewMessageID(), Reports: true, Created: time.Now()}
		if _, fresh, err := ts.AddDelegation(t.Context(), d, ""); !fresh || err != nil {
			t.Fatal(fresh, err)
		}
		ts.mu.Lock()
		ts.applyEnd(d, NewAbandonedEnding(wire.NewMessageID(), ""))
		ts.mu.Unlock()
	}
	ts.enter(t, client.Given, 0)
}
