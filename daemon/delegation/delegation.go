package delegation

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// Delegation is one delegation, given to a peer or taken from one. What is large (its
// text, the ack, results) stays on disk.
type Delegation struct {
	Row       int64
	Direction client.TaskDirection
	Peer      identity.ID
	ID        wire.MessageID
	Content   [sha256.Size]byte // of the content
	Agent     string            // attached name: of who delegated, or of who works on it
	Chain     wire.Chain
	Reports   bool // a result is owed
	Created   time.Time
	Deadline  time.Time // zero: none

	// Guarded by Table.mu.
	KeyHash    registry.KeyHash // of the key of who delegated, or works on it; zero: an owner's call
	state      client.TaskState
	acked      bool           // the ack is on disk
	partials   uint64         // how many have come
	finalID    wire.MessageID // message that ended it
	owed       bool           // its end is still to be told to the peer
	ending     bool           // its end is being written
	counted    bool           // it counts as work of its agent
	shared     bool           // it takes of its peer's share
	aloneSince time.Time      // since when no agent of that name is attached; zero: one is
	retry      time.Time      // when to report again
	pause      time.Duration  // until the retry after that
	changed    chan struct{}  // closed at the next change; nil while nobody waits
	abort      []context.CancelCauseFunc
}

// IsOver reports whether nothing is owed or expected any more in a state.
func (t *Delegation) IsOver(state client.TaskState) bool {
	return state.IsFinal() || state == client.TaskAccepted && !t.Reports
}

// isFinal is isOver in the state of now.
func (t *Delegation) isFinal() bool { return t.IsOver(t.state) }

// deadlines returns when an open task's time is over, and until when its entry is kept.
func (t *Delegation) deadlines() (over, forgotten time.Time) {
	if t.Deadline.IsZero() {
		end := t.Created.Add(keptWithout)
		return end, end
	}
	return t.Deadline, t.Deadline.Add(keptAfter)
}

// nextDue returns when the clock has to act on t next.
func (t *Delegation) nextDue() time.Time {
	over, forgotten := t.deadlines()
	switch {
	case t.owed && t.retry.Before(forgotten):
		return t.retry
	case t.isFinal():
		return forgotten
	case t.ending && !t.Deadline.IsZero():
		return over // that passes, whatever is being written
	case t.ending:
		return forgotten
	case !t.aloneSince.IsZero() && t.Deadline.IsZero():
		return earlier(over, t.aloneSince.Add(orphanedFor))
	}
	return over
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Ending is how a task ends.
type Ending struct {
	State   client.TaskState
	ID      wire.MessageID // of the message that says so
	Outcome string         // in words
	Payload wire.Payload   // of that message
	owed    bool           // the peer has not been told
}
