package delegation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// follow enters a delegation that was given and follows from another one.
func (ts *Table) follow(t *testing.T, parent *Delegation, guessed bool) *Delegation {
	t.Helper()
	e := &Delegation{Direction: client.Given, Peer: identity.ID{2}, ID: wire.NewMessageID(), Agent: "reviewer", Reports: true, Created: time.Now(), Parent: parent.ID, Guessed: guessed}
	if _, fresh, err := ts.AddDelegation(t.Context(), e, "mend it"); !fresh || err != nil {
		t.Fatal(fresh, err)
	}
	if err := ts.RecordAck(t.Context(), e, true, wire.Payload(`{"accepted":true}`), nil); err != nil {
		t.Fatal(err)
	}
	return e
}

// A delegation ends with the one that it follows from if that is cancelled or expires, at once or after a restart,
// and the peer is told. It does not when that ends in another way, nor if what it follows from was guessed.
func TestFollowersEndWithTheirParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan wire.MessageID, 9)
		report := func(_ context.Context, t *Delegation) error { told <- t.ID; return nil }
		next := func(want ...*Delegation) {
			t.Helper()
			synctest.Wait()
			var got []wire.MessageID
			for len(told) > 0 {
				got = append(got, <-told)
			}
			if len(got) != len(want) || len(want) > 0 && got[0] != want[0].ID {
				t.Errorf("the peers of %v are told, want %v", got, want)
			}
		}
		end := func(ts *Table, d *Delegation, state client.TaskState) {
			t.Helper()
			if won, err := ts.EndDelegation(t.Context(), d, Ending{State: state, ID: wire.NewMessageID()}); !won || err != nil {
				t.Fatal(won, err)
			}
		}
		ts := table(t)
		late, done := ts.enter(t, client.Taken, time.Hour), ts.enter(t, client.Taken, 0)
		follows, guess, of := ts.follow(t, late, false), ts.follow(t, late, true), ts.follow(t, done, false)
		before := ts.enter(t, client.Taken, 0)
		interrupted := ts.follow(t, before, false)
		end(ts, before, client.TaskCancelled) // nothing runs yet
		end(ts, done, client.TaskCompleted)
		again := ts.reopen(t)
		if _, _, err := again.agents.Attach(new(jsonrpc.Conn), client.AttachParams{Name: "reviewer"}, false, nil); err != nil {
			t.Fatal(err)
		}
		again.UpdateAgentPresence("reviewer")
		again.clock(t, report)
		next(interrupted)
		again.is(t, again.Find(client.Given, interrupted.Peer, interrupted.ID), client.TaskCancelled)
		if !again.IsUnwanted(before.ID) || again.IsUnwanted(done.ID) {
			t.Error("what is wanted")
		}

		time.Sleep(time.Hour)
		next(follows)
		for d, want := range map[*Delegation]client.TaskState{late: client.TaskExpired, follows: client.TaskCancelled, guess: client.TaskAccepted, of: client.TaskAccepted} {
			again.is(t, again.Find(d.Direction, d.Peer, d.ID), want)
		}
		// One that is entered when its parent is over ends as well, and its exchange with it.
		parent := again.Find(client.Taken, before.Peer, before.ID)
		ctx, cancel := context.WithCancelCause(t.Context())
		entered := again.follow(t, parent, false)
		defer again.OnInterrupt(entered, cancel)()
		if context.Cause(ctx) != error(ErrParentEnded) {
			t.Errorf("its exchange goes on: %v", context.Cause(ctx))
		}
		next(entered)
	})
}
