package delegation

import (
	"context"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// This file ends the delegations that follow from one that is cancelled or expired: nobody waits for what they
// were given for. It ends none whose caller has guessed what it follows from.

// ErrParentEnded is the error of a call that follows from a request whose outcome nobody waits for any more.
var ErrParentEnded = kinds.Errorf(kinds.Cancelled, "the request that this follows from ended: nobody waits for its outcome any more; if you want this all the same, call without naming that request")

// newUnwantedEnding returns the end of a given delegation that follows from one that is cancelled or expired.
// It is reported to the peer.
func newUnwantedEnding() Ending {
	return Ending{State: client.TaskCancelled, ID: wire.NewMessageID(), Outcome: "the request that this follows from ended", owed: true}
}

// IsUnwanted reports whether the delegation of an id is cancelled or expired.
func (ts *Table) IsUnwanted(id wire.MessageID) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.isUnwanted(id)
}

// isUnwanted does what IsUnwanted does. The caller holds mu.
func (ts *Table) isUnwanted(id wire.MessageID) bool {
	t := ts.findByID(nil, id, client.Taken, client.Given)
	return t != nil && t.isUnwanted()
}

// isUnwanted reports whether nobody waits for the outcome of t any more. The caller holds Table.mu.
func (t *Delegation) isUnwanted() bool {
	return t.state == client.TaskCancelled || t.state == client.TaskExpired
}

// noteParent notes that the parent of a given delegation is cancelled or expired, if so. The caller holds mu.
func (ts *Table) noteParent(t *Delegation) {
	if !t.Parent.IsZero() && !t.Guessed && ts.isUnwanted(t.Parent) {
		t.unwanted = true
	}
}

// endFollowers ends what follows from t if t is cancelled or expired. The caller holds mu.
func (ts *Table) endFollowers(t *Delegation) {
	if !t.isUnwanted() {
		return
	}
	for _, f := range ts.table {
		if f.Parent != t.ID || f.Guessed || f.isOverNow() {
			continue
		}
		f.unwanted = true
		for _, abort := range f.abort {
			abort(ErrParentEnded)
		}
		ts.notifyWaiters(f)
	}
}

// EndUnwanted ends a delegation whose exchange was given up because what it follows from has ended.
func (ts *Table) EndUnwanted(ctx context.Context, t *Delegation) error {
	_, err := ts.EndDelegation(ctx, t, newUnwantedEnding())
	return err
}
