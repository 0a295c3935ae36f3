package peer

import (
	"context"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Outcome says what a sender knows of a message that was sent.
type Outcome string

// The outcomes (protocol, section 5).
const (
	Sent   Outcome = "sent"   // written to QUIC, nothing more
	Handed Outcome = "handed" // an attached agent's process confirmed it
	Held   Outcome = "held"   // it is stored in the peer's inbox, on disk
)

// Send sends a message to its receiver and, with wait, blocks until the receipt is in;
// without, it returns when the message is written. On a ready connection that takes 5 s
// at most, the wait for stream credit included. The error is a *kinds.Error. A receiver
// that is not a peer yet is introduced: its certificate may not have come since the start.
func (n *Node) Send(ctx context.Context, message kinds.Checked, wait bool) (Outcome, error) {
	p := n.begin(&Passing{Checked: message})
	defer n.cfg.Observer.Ended(p)
	p.Outcome, p.Err = n.send(ctx, message, wait)
	return p.Outcome, p.Err
}

func (n *Node) send(ctx context.Context, message kinds.Checked, wait bool) (Outcome, error) {
	if _, known := n.cfg.Trust.FindPeer(message.To); !known && n.cfg.Trust.HasAuthorities() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, kinds.ReceiptDeadline)
		defer cancel()
		_ = n.Introduce(ctx, message.To) // if that fails, what follows says why
	}
	out, err := n.encodeEnvelope(message, kinds.Message, wire.StreamMessage)
	if err != nil {
		return "", err
	}
	defer out.release()
	state, fail := n.findTrustedState(message.To)
	if fail != nil {
		return "", fail
	}
	var outcome Outcome
	fail = state.sendOnReadyConn(ctx, func(c *conn) (err *kinds.Error) {
		outcome, err = c.sendMessage(ctx, message.Kind, &out, wait)
		return err
	})
	if fail != nil {
		return "", fail
	}
	return outcome, nil
}

// sendMessage sends a message on this connection, as [Node.Send] does. The error is
// errNothingSent if another connection may be tried.
func (c *conn) sendMessage(ctx context.Context, kind string, out *outgoing, wait bool) (Outcome, *kinds.Error) {
	if err := out.checkSize(kind, int(c.peerHello.MaxMessage)); err != nil {
		return "", err.(*kinds.Error)
	}
	if c.countReceiptsOwed() >= maxReceiptsOwed {
		return "", kinds.Errorf(kinds.Overloaded, "%s owes %d receipts; try again later", c.node.peerName(c.id), maxReceiptsOwed).WithDelivered(kinds.DeliveredNo)
	}
	ctx, forget := c.watchUnheard(ctx)
	defer forget()
	if !c.tryAddOwnStream() {
		return "", errNothingSent
	}
	ctx, cancel := context.WithTimeout(ctx, kinds.ReceiptDeadline)
	defer cancel()
	s, err := c.qc.OpenUniStreamSync(ctx)
	if err != nil {
		c.removeOwnStream()
		if ctx.Err() != nil {
			return "", newContextError(c.node, ctx, c.id, kinds.DeliveredNo)
		}
		return "", c.toOpenStreamError(err)
	}
	var answer chan *wire.Receipt
	if wait {
		answer = make(chan *wire.Receipt, 1)
	}
	c.mu.Lock()
	c.receipts[s.StreamID()] = answer
	c.mu.Unlock()

	stop := callAfter(ctx, func() { s.CancelWrite(streamCancelled) })
	defer stop()
	if wait {
		err = c.outbox.writeMessage(s, out.take())
	} else {
		err = out.writeAndClose(s)
	}
	if err != nil {
		c.stopAwaitingReceipt(s.StreamID())
		return "", c.node.toWriteError(ctx, c, err)
	}
	if !wait && !stop() { // the stream was reset
		c.stopAwaitingReceipt(s.StreamID())
		return "", c.node.toCallError(ctx, c, ctx.Err())
	}
	if !wait {
		return Sent, nil
	}
	select {
	case r := <-answer:
		return c.toOutcome(r)
	case <-ctx.Done():
	case <-c.qc.Context().Done():
	}
	// The receipt may have come together with the end.
	if !c.stopAwaitingReceipt(s.StreamID()) {
		return c.toOutcome(<-answer)
	}
	if c.qc.Context().Err() != nil {
		return "", c.toConnectionError(context.Cause(c.qc.Context()))
	}
	return "", newContextError(c.node, ctx, c.id, kinds.DeliveredUnknown)
}

// maxReceiptsOwed bounds how many messages a peer may leave without receipt. Usually its
// stream credit does, but the peer may give that back without a receipt.
const maxReceiptsOwed = 4096

func (c *conn) countReceiptsOwed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.receipts)
}

func (c *conn) toOutcome(r *wire.Receipt) (Outcome, *kinds.Error) {
	switch r.State {
	case wire.Handed:
		return Handed, nil
	case wire.Held:
		return Held, nil
	}
	e := markRemoteError(c.id, kinds.NewErrorFromWire(r.Code, r.Message, r.RetryAfterMS))
	if r.Undelivered && e.Retryable {
		e = e.WithDelivered(kinds.DeliveredNo)
	}
	return "", e
}

// stopAwaitingReceipt stops waiting for a receipt and reports whether it had not come yet.
func (c *conn) stopAwaitingReceipt(id quic.StreamID) bool {
	c.mu.Lock()
	_, waits := c.receipts[id]
	delete(c.receipts, id)
	c.mu.Unlock()
	if waits {
		c.removeOwnStream()
	}
	return waits
}

// handleReceipt hands a receipt to the call that waits for it. One for an unknown stream
// is ignored, because its call may have given up.
func (c *conn) handleReceipt(r *wire.Receipt) {
	c.mu.Lock()
	answer, waits := c.receipts[quic.StreamID(r.Stream)]
	delete(c.receipts, quic.StreamID(r.Stream))
	c.mu.Unlock()
	if !waits {
		return
	}
	if answer != nil {
		answer <- r
	}
	c.removeOwnStream()
}
