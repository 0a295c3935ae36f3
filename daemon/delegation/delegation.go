package delegation

import (
	"context"
	"crypto/sha256"
	"time"

	"golang.org/x/time/rate"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Delegation is one delegation, given to a peer or taken from one. Its large parts (text,
// ack, results) are on disk only.
type Delegation struct {
	Row       int64
	Direction client.TaskDirection
	Peer      identity.ID
	ID        wire.MessageID
	Content   [sha256.Size]byte // hash of the content
	Agent     string            // name of the agent that delegated, or that works on it
	FromAgent string            // of a taken one: the agent that delegated, as the peer claims
	ToAgent   string            // of a given one: the agent of the peer that it is for, or "" for any
	Bytes     int               // of its payload; 0 if an older acpd entered it
	Chain     wire.Chain
	Parent    wire.MessageID // of a given one: what it follows from, as its caller has named it, or zero
	Guessed   bool           // its caller has guessed the parent
	Reports   bool           // a result is owed
	Created   time.Time
	Deadline  time.Time // zero if it was given without one

	// Guarded by Table.mu.
	KeyHash        registry.KeyHash // of the key of that agent; zero if the owner delegated
	state          client.TaskState
	acking         bool           // the ack is being written
	acked          bool           // the ack is on disk
	partials       uint64         // how many have arrived
	finalID        wire.MessageID // message that ended it
	owed           bool           // its end is still to be reported to the peer
	unwanted       bool           // what it follows from is cancelled or expired
	ending         bool           // its end is being written
	countsAsWork   bool           // it is part of its agent's load
	takesShare     bool           // it takes of its peer's share
	agentAwaySince time.Time      // when its agent was first missing; zero if an agent of that name is attached
	nextReport     time.Time      // when to report again
	reportPause    time.Duration  // until the retry after that
	changed        chan struct{}  // closed at the next change; nil while nobody waits
	abort          []context.CancelCauseFunc
	runs           int // headless runs that were reserved for it since the start
	outgoing       outgoingPartials
	questions      []*Question   // of a given one: those that are answered, and one that is not
	asked          int           // how many there were
	incoming       *rate.Limiter // of a given one: how fast partial results may come; nil before the first
}

// NewDelegation returns a delegation that begins now. env is its message, content the hash of that,
// and what its payload. by is the agent that gives it to a peer, or that works on it here.
func NewDelegation(direction client.TaskDirection, peer identity.ID, env *wire.Envelope, content [sha256.Size]byte, what *kinds.Delegate, by registry.Credential) *Delegation {
	t := &Delegation{
		Direction: direction, Peer: peer, ID: env.ID, Content: content, Agent: by.Name, KeyHash: by.KeyHash,
		Chain: env.Chain(), Reports: what.OwesResult(), Created: time.Now(), Bytes: len(env.Payload),
	}
	if direction == client.Taken {
		t.FromAgent = env.FromAgent
	} else {
		t.ToAgent = env.Agent
	}
	if what.DeadlineMS > 0 {
		t.Deadline = t.Created.Add(what.Deadline())
	}
	return t
}

// IsOver reports whether nothing is owed or expected any more in a state.
func (t *Delegation) IsOver(state client.TaskState) bool {
	return state.IsFinal() || state == client.TaskAccepted && !t.Reports
}

// isOverNow does what IsOver does, for the present state. The caller holds Table.mu.
func (t *Delegation) isOverNow() bool { return t.IsOver(t.state) }

// Ending holds the end of a delegation.
type Ending struct {
	State   client.TaskState
	ID      wire.MessageID // of the message that reports it
	Outcome string         // in words
	Payload wire.Payload   // of that message
	owed    bool           // it is still to be reported to the peer
}

// NewAbandonedEnding returns the end of a given delegation for whose cancel the peer has sent no ack. It
// is reported to the peer later, by a message with that id.
func NewAbandonedEnding(id wire.MessageID, reason string) Ending {
	outcome := "abandoned"
	if reason != "" {
		outcome += ": " + reason
	}
	return Ending{State: client.TaskCancelled, ID: id, Outcome: outcome, owed: true}
}
