// Package known holds the messages of peers that this daemon knows at present: who sent each, the chain that
// led to it, and which agents had it.
//
// A program names a message only by its id, as the parent of a call. So no two messages that are known at a
// time have one id, and no message has the id of a delegation that was given from here. An agent may name as
// a parent only a message that it was handed or gave itself. A query ends when nobody waits any more for its parent.
//
// It does not copy the messages that others keep: it asks the inbox, its memory of repeats, and the table of
// delegations.
package known

import (
	"context"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Deps is what [Messages] needs of the rest of the daemon.
type Deps struct {
	Self         identity.ID // this daemon
	Inbox        *inbox.Inbox
	Repeats      *inbox.Repeats
	Delegations  *delegation.Table
	MaxListBytes func() int      // how many bytes the rows of one answer may fill
	Calls        *sync.WaitGroup // the daemon waits for what runs in it
}

// Messages is what is known of messages. Any number of goroutines may use it.
type Messages struct {
	Deps
	*openQueries
	underWay *messagesUnderWay
	shown    *recentChains // messages that sessions were shown
}

// New returns Messages that know only what others keep.
func New(d Deps) *Messages {
	return &Messages{Deps: d, openQueries: newOpenQueries(), underWay: newMessagesUnderWay(), shown: newRecentChains()}
}

// Begin reserves the id of a message for its sender until the caller calls [Messages.End]. By then the inbox
// or a table knows the message, or nothing has to. Begin returns false if a known message of another peer has
// the id. Then the caller does not call End.
func (m *Messages) Begin(from identity.ID, id wire.MessageID) bool {
	return m.underWay.begin(from, id, m.FindSender)
}

// End ends what Begin has begun.
func (m *Messages) End(id wire.MessageID) { m.underWay.end(id) }

// AddShown remembers a message that a session is shown: it may act upon it later.
func (m *Messages) AddShown(env *wire.Envelope, session registry.KeyHash) {
	m.shown.add(env, session, false)
}

// ForgetPeer forgets the messages of a peer that nothing else keeps.
func (m *Messages) ForgetPeer(id identity.ID) {
	m.shown.forgetPeer(id)
	m.endedQueries.forgetPeer(id)
}

// CountRun adds a headless run to an open query or delegation of a peer on which the holder works, or on which any
// agent works if by is nil. It returns how many runs there were with this one, or 0 without such a request. undo
// takes the run back.
func (m *Messages) CountRun(by *registry.Credential, peer identity.ID, id wire.MessageID) (n int, undo func()) {
	ofQuery, undoQuery := m.countRun(by, peer, id)
	ofDelegation, undoDelegation := m.Delegations.CountRun(by, peer, id)
	return max(ofQuery, ofDelegation), func() {
		undoQuery()
		undoDelegation()
	}
}

// FindSender returns who sent a message that is known: this daemon, if it is a delegation that was
// given from here.
func (m *Messages) FindSender(id wire.MessageID) (from identity.ID, known bool) {
	if from, _, known = m.findChain(nil, id); known {
		return from, true
	}
	return m.Inbox.FindSender(id)
}

// findChain returns the sender and the chain of a message that the holder was handed or gave, nil for any
// agent, and that is known otherwise than by the inbox: a query that is open or has ended, a message that
// repeats remember or a session was shown, or a delegation.
func (m *Messages) findChain(by *registry.Credential, id wire.MessageID) (from identity.ID, c wire.Chain, known bool) {
	if from, c, known = m.findOpenQuery(by, id); known {
		return from, c, true
	}
	if from, c, known = m.Repeats.Find(by, id); known {
		return from, c, true
	}
	for _, memory := range []*recentChains{m.shown, m.endedQueries} {
		if from, one, known := memory.find(by, id); known {
			return from, one.chain, true
		}
	}
	if t := m.Delegations.FindByID(by, id, client.Taken); t != nil {
		return t.Peer, t.Chain, true
	}
	if t := m.Delegations.FindByID(by, id, client.Given); t != nil {
		return m.Self, t.Chain, true
	}
	return from, c, false
}

// findHeldChain returns the chain of a message in the inbox that the holder may read, nil for the owner.
func (m *Messages) findHeldChain(ctx context.Context, by *registry.Credential, id wire.MessageID) (c wire.Chain, known bool, err error) {
	if _, held := m.Inbox.FindSender(id); !held || by != nil && by.Name == "" {
		return c, false, nil
	}
	var of *string
	if by != nil {
		of = &by.Name
	}
	found, err := m.Inbox.List(ctx, &client.InboxParams{IDs: []wire.MessageID{id}, Peek: true, Limit: 1}, of, nil, m.MaxListBytes())
	if err != nil || len(found.Messages) == 0 {
		return c, false, err
	}
	return found.Messages[0].Envelope.Chain(), true, nil
}

// FindParentChain returns the chain of a message that follows from another one, which must be known; of one
// that follows from none, a chain that begins. The parent must have been handed to the holder or given by it,
// nil for the owner, who may name any.
func (m *Messages) FindParentChain(ctx context.Context, by *registry.Credential, h *client.Head) (wire.Chain, error) {
	if h.Parent.IsZero() {
		return wire.Chain{Thread: h.Thread, Trace: wire.NewTrace()}, nil
	}
	if h.Thread != "" {
		return wire.Chain{}, kinds.Errorf(kinds.Invalid, "thread: it follows from parent: leave one of them out")
	}
	_, c, known := m.findChain(by, h.Parent)
	if !known {
		var err error
		if c, known, err = m.findHeldChain(ctx, by, h.Parent); err != nil {
			return wire.Chain{}, err
		}
	}
	if !known {
		return wire.Chain{}, kinds.Errorf(kinds.NotFound, "parent: %s is no message that was handed to this caller, or that it gave, and that is still known: leave it out where the chain begins", h.Parent).WithReason(kinds.ReasonParentUnknown)
	}
	c.Hops++
	return c, nil
}

// NewParentEndedError returns [delegation.ErrParentEnded] for a caller, with what is known of its message.
func NewParentEndedError(d kinds.Delivered) *kinds.Error {
	e := *delegation.ErrParentEnded
	e.Details = jsontext.Value(`{"delivered":"` + string(d) + `","reason":"` + string(kinds.ReasonParentEnded) + `"}`)
	return &e
}

// HasParentEnded reports whether [delegation.ErrParentEnded] is the cause with which ctx has ended.
func HasParentEnded(ctx context.Context) bool {
	return context.Cause(ctx) == error(delegation.ErrParentEnded)
}

// FollowParent returns a context for a query. It ends with [delegation.ErrParentEnded] when nobody waits any more for
// the outcome of the query's parent: a query that ends without an answer, or a delegation that is cancelled or
// expires. FollowParent returns an error if the parent has already ended in that way. A guessed parent, or one of
// another kind, never ends the query. The caller calls leave.
func (m *Messages) FollowParent(ctx context.Context, h *client.Head) (following context.Context, leave func(), err error) {
	if h.Parent.IsZero() || h.Guessed {
		return ctx, func() {}, nil
	}
	if m.Delegations.IsUnwanted(h.Parent) {
		return nil, nil, NewParentEndedError(kinds.DeliveredNo)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	forget, open := m.followQuery(h.Parent, cancel)
	if !open {
		cancel(nil)
		return nil, nil, NewParentEndedError(kinds.DeliveredNo)
	}
	if t := m.Delegations.FindByID(nil, h.Parent, client.Taken, client.Given); t != nil {
		m.Calls.Go(func() {
			if m.Delegations.WaitForEnd(ctx, t, nil, nil) == nil && m.Delegations.IsUnwanted(t.ID) {
				cancel(delegation.ErrParentEnded)
			}
		})
	}
	return ctx, func() { forget(); cancel(nil) }, nil
}
