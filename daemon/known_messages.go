package daemon

import (
	"context"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// This file keeps the ids of inbound messages apart. A program names a message by its id alone, as the
// parent of a call. So no two messages that are known at a time have one id, and no message has the id
// of a delegation that was given from here.

// messagesUnderWay holds who sent the messages that are being taken up: a message is among them
// before anything else knows it. Package peer bounds how many there are.
type messagesUnderWay struct {
	mu   sync.Mutex // guards byID
	byID map[wire.MessageID]underWay
}

// underWay says who sent a message, and how many times it is being taken up: repeats may come at once.
type underWay struct {
	from  identity.ID
	times int
}

func newMessagesUnderWay() *messagesUnderWay {
	return &messagesUnderWay{byID: make(map[wire.MessageID]underWay)}
}

// begin enters a message, unless one of another peer with its id is under way, or known by find. If
// it returns true, the caller calls end.
func (x *messagesUnderWay) begin(from identity.ID, id wire.MessageID, find func(wire.MessageID) (identity.ID, bool)) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	u, ok := x.byID[id]
	if !ok {
		u.from = from
		if other, known := find(id); known {
			u.from = other
		}
	}
	if u.from != from {
		return false
	}
	u.times++
	x.byID[id] = u
	return true
}

func (x *messagesUnderWay) end(id wire.MessageID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	u := x.byID[id]
	if u.times--; u.times > 0 {
		x.byID[id] = u
	} else {
		delete(x.byID, id)
	}
}

// beginMessage reserves the id of a message for its sender until the caller calls d.underWay.end. By
// then the inbox or a table knows the message, or nothing has to. beginMessage returns an error if a
// known message of another peer has the id. Only a peer that may send such a message learns that.
func (d *Daemon) beginMessage(sender identity.Peer, message kinds.Checked) error {
	if d.underWay.begin(sender.ID, message.ID, d.findSender) {
		return nil
	}
	if err := d.permissions.checkAllowed(sender, message.Kind, message.Domain); err != nil {
		return err
	}
	return inbox.NewReusedIDError(message.Envelope)
}

// findSender returns who sent a message that is known: this daemon, if it is a delegation that was
// given from here.
func (d *Daemon) findSender(id wire.MessageID) (from identity.ID, known bool) {
	if from, _, known = d.findChain(nil, id); known {
		return from, true
	}
	return d.inbox.FindSender(id)
}

// findChain returns the sender and the chain of a message that the holder was handed or gave, nil for any
// agent, and that is known otherwise than by the inbox: a query that is open or has ended, a message that
// repeats remember or a session was shown, or a delegation.
func (d *Daemon) findChain(by *registry.Credential, id wire.MessageID) (from identity.ID, c wire.Chain, known bool) {
	if from, c, known = d.queries.find(by, id); known {
		return from, c, true
	}
	if from, c, known = d.repeats.Find(by, id); known {
		return from, c, true
	}
	for _, memory := range []*recentChains{d.shownChains, d.queries.ended} {
		if from, m, known := memory.find(by, id); known {
			return from, m.chain, true
		}
	}
	if t := d.delegations.FindByID(by, id, client.Taken); t != nil {
		return t.Peer, t.Chain, true
	}
	if t := d.delegations.FindByID(by, id, client.Given); t != nil {
		return d.id, t.Chain, true
	}
	return from, c, false
}

// findHeldChain returns the chain of a message in the inbox that the holder may read, nil for the owner.
func (d *Daemon) findHeldChain(ctx context.Context, by *registry.Credential, id wire.MessageID) (c wire.Chain, known bool, err error) {
	if _, held := d.inbox.FindSender(id); !held || by != nil && by.Name == "" {
		return c, false, nil
	}
	var of *string
	if by != nil {
		of = &by.Name
	}
	found, err := d.inbox.List(ctx, &client.InboxParams{IDs: []wire.MessageID{id}, Peek: true, Limit: 1}, of, nil, d.maxListBytes())
	if err != nil || len(found.Messages) == 0 {
		return c, false, err
	}
	return found.Messages[0].Envelope.Chain(), true, nil
}

// findParentChain returns the chain of a message that follows from another one, which must be known; of one
// that follows from none, a chain that begins. A guest may name what it was handed or gave.
func (d *Daemon) findParentChain(ctx context.Context, s *local.Conn, h *client.Head) (wire.Chain, error) {
	if h.Parent.IsZero() {
		return wire.Chain{Thread: h.Thread, Trace: wire.NewTrace()}, nil
	}
	if h.Thread != "" {
		return wire.Chain{}, kinds.Errorf(kinds.Invalid, "thread: it follows from parent: leave one of them out")
	}
	by := s.GuestCredential()
	_, c, known := d.findChain(by, h.Parent)
	if !known {
		var err error
		if c, known, err = d.findHeldChain(ctx, by, h.Parent); err != nil {
			return wire.Chain{}, err
		}
	}
	if !known {
		return wire.Chain{}, kinds.Errorf(kinds.NotFound, "parent: %s is no message that was handed to this caller, or that it gave, and that is still known: leave it out where the chain begins", h.Parent).WithReason(kinds.ReasonParentUnknown)
	}
	c.Hops++
	return c, nil
}

// errParentEnded is the cause with which a call ends that follows from a request of which nobody waits for the
// outcome any more.
var errParentEnded = delegation.ErrParentEnded

// newParentEndedError returns errParentEnded for a caller, with what is known of its message.
func newParentEndedError(d kinds.Delivered) *kinds.Error {
	e := *errParentEnded
	e.Details = jsontext.Value(`{"delivered":"` + string(d) + `","reason":"` + string(kinds.ReasonParentEnded) + `"}`)
	return &e
}

// hasParentEnded reports whether errParentEnded is the cause with which ctx has ended.
func hasParentEnded(ctx context.Context) bool { return context.Cause(ctx) == error(errParentEnded) }

// followParent returns a context for a query that ends with errParentEnded when nobody waits any more for the
// outcome of what the query follows from: a query that ends without an answer, or a delegation that is
// cancelled or expires. It returns an error if that has ended already. The query goes on with any other parent,
// and if that was guessed. The caller calls leave.
func (d *Daemon) followParent(ctx context.Context, h *client.Head) (following context.Context, leave func(), err error) {
	if h.Parent.IsZero() || h.Guessed {
		return ctx, func() {}, nil
	}
	if d.delegations.IsUnwanted(h.Parent) {
		return nil, nil, newParentEndedError(kinds.DeliveredNo)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	forget, open := d.queries.follow(h.Parent, cancel)
	if !open {
		cancel(nil)
		return nil, nil, newParentEndedError(kinds.DeliveredNo)
	}
	if t := d.delegations.FindByID(nil, h.Parent, client.Taken, client.Given); t != nil {
		d.calls.Go(func() {
			if d.delegations.WaitForEnd(ctx, t, nil, nil) == nil && d.delegations.IsUnwanted(t.ID) {
				cancel(errParentEnded)
			}
		})
	}
	return ctx, func() { forget(); cancel(nil) }, nil
}
