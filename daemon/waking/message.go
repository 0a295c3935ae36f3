package waking

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Message is a message for a session.
type Message struct {
	Agent      string // the session
	Peer       identity.Peer
	Kind       string
	ID         wire.MessageID
	Delegation wire.MessageID // the delegation of the session, or its message that was kept, that the message ends or asks about, or zero

	// If the owner is to be asked about it, else zero.
	Text   string            // the beginning of what it says
	Digest [sha256.Size]byte // of all that it says
	Again  bool              // it was held before the daemon's start, so an answer to it is forgotten
}

// isQuestion reports whether the message is a question about what the session has delegated.
func (m Message) isQuestion() bool { return m.Kind == kinds.KindQuery && !m.Delegation.IsZero() }

// isAwaited reports whether the sender of the message waits for what the session does.
func (m Message) isAwaited() bool { return m.Kind == kinds.KindQuery || m.Kind == kinds.KindDelegate }

// isAskedAnew reports whether the message, if it comes again under its id, is another request.
func (m Message) isAskedAnew() bool { return m.Kind == kinds.KindQuery && m.Delegation.IsZero() }

func (m Message) key() messageKey { return messageKey{m.Agent, m.Peer.ID, m.ID} }

// messageKey names a message for a session.
type messageKey struct {
	agent string
	peer  identity.ID
	id    wire.MessageID
}

// Post wakes a session for a message, and returns the outcome.
type Post func(context.Context, client.WakeGrant) Outcome

// Outcome is the outcome of a wake.
type Outcome struct {
	Posted  bool   // the session's program was given a pointer, or may have been
	Refused string // if it was not: why the program takes no message now, for the owner; "" if it takes others

	NeedsPerson bool // a person has to be there, or to allow it
}

// entry is a message that wakes a session, or is to.
type entry struct {
	Message
	charge   *charge
	earlier  *charge // of the same query, if it is asked anew, or nil
	grant    client.WakeGrant
	post     Post
	refuse   func()    // is called if the owner says no; may be nil
	unsaved  bool      // its turn could not be written once
	approval *approval // the owner's approval, or nil

	// For an approved message that a bound keeps back:
	keptBy    error // the bound
	keptUntil time.Time
}
