package daemon

import (
	"context"
	"sync"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/inbox"
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
	if from, _, known = d.findChain(id); known {
		return from, true
	}
	if from, known = d.inbox.FindSender(id); known {
		return from, true
	}
	if d.delegations.FindByID(nil, id, client.Given) != nil {
		return d.id, true
	}
	return from, false
}

// findChain returns the sender and the chain of a message that is known otherwise than by the
// inbox: an open query, a message that repeats remember or a session was shown, or a taken task.
func (d *Daemon) findChain(id wire.MessageID) (from identity.ID, c wire.Chain, known bool) {
	if from, c, known = d.queries.find(id); known {
		return from, c, true
	}
	if from, c, known = d.repeats.Find(id); known {
		return from, c, true
	}
	if from, c, known = d.shownChains.find(id); known {
		return from, c, true
	}
	if t := d.delegations.FindByID(nil, id, client.Taken); t != nil {
		return t.Peer, t.Chain, true
	}
	return from, c, false
}

// findParentChain returns the chain of a message that follows from another one, which must be known; of one
// that follows from none, a chain that begins.
func (d *Daemon) findParentChain(ctx context.Context, h *client.Head) (wire.Chain, error) {
	if h.Parent.IsZero() {
		return wire.Chain{Thread: h.Thread, Trace: wire.NewTrace()}, nil
	}
	if h.Thread != "" {
		return wire.Chain{}, kinds.Errorf(kinds.Invalid, "thread: it follows from parent: leave one of them out")
	}
	_, c, known := d.findChain(h.Parent)
	if from, held := d.inbox.FindSender(h.Parent); held && !known {
		env, err := d.inbox.ReadMessage(ctx, inbox.MessageKey{Peer: from, ID: h.Parent})
		if err != nil {
			return wire.Chain{}, err
		}
		if env != nil {
			c, known = env.Chain(), true
		}
	}
	if !known {
		return wire.Chain{}, kinds.Errorf(kinds.NotFound, "parent: %s is no inbound message that is still known: leave it out where the chain begins", h.Parent).WithReason(kinds.ReasonParentUnknown)
	}
	c.Hops++
	return c, nil
}
