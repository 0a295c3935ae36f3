package daemon

import (
	"context"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// task is one delegation, given to a peer or taken from one. What is large (its
// text, the ack, results) stays on disk.
type task struct {
	row       int64
	direction client.TaskDirection
	peer      identity.ID
	id        wire.MessageID
	hash      inbox.Digest
	agent     string // attached name: of who delegated, or of who works on it
	chain     wire.Chain
	reports   bool // a result is owed
	created   time.Time
	deadline  time.Time // zero: none

	// Under tasks.mu.
	holder   registry.KeyHash // of the key of who delegated, or works on it; zero: an owner's call
	state    client.TaskState
	acked    bool           // the ack is on disk
	partials uint64         // how many have come
	finalID  wire.MessageID // message that ended it
	owed     bool           // its end is still to be told to the peer
	ending   bool           // its end is being written
	counted  bool           // it counts as work of its agent
	shared   bool           // it takes of its peer's share
	alone    time.Time      // since when no agent of that name is attached; zero: one is
	retry    time.Time      // when to report again
	pause    time.Duration  // until the retry after that
	changed  chan struct{}  // closed at the next change; nil while nobody waits
	abort    []context.CancelCauseFunc
}

// final reports whether nothing is owed or expected any more.
func (t *task) final() bool {
	return t.state.IsFinal() || t.state == client.TaskAccepted && !t.reports
}

// expires returns when an open task's time is over, and until when its entry is kept.
func (t *task) expires() (over, forgotten time.Time) {
	if t.deadline.IsZero() {
		end := t.created.Add(keptWithout)
		return end, end
	}
	return t.deadline, t.deadline.Add(keptAfter)
}

// due returns when the clock has to act on t next.
func (t *task) due() time.Time {
	over, forgotten := t.expires()
	switch {
	case t.owed && t.retry.Before(forgotten):
		return t.retry
	case t.final():
		return forgotten
	case t.ending && !t.deadline.IsZero():
		return over // that passes, whatever is being written
	case t.ending:
		return forgotten
	case !t.alone.IsZero() && t.deadline.IsZero():
		return earlier(over, t.alone.Add(orphanedFor))
	}
	return over
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// ending is how a task ends.
type ending struct {
	state   client.TaskState
	id      wire.MessageID // of the message that says so
	outcome string         // in words
	payload wire.Payload   // of that message
	owed    bool           // the peer has not been told
}
