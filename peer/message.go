package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Outcome is what a sender knows of its message.
type Outcome string

// The outcomes (protocol, section 5).
const (
	Sent   Outcome = "sent"   // written to QUIC, nothing more
	Handed Outcome = "handed" // an attached agent's process confirmed it
	Held   Outcome = "held"   // it lies in the peer's inbox, on disk
)

// Send sends a message to its receiver and, with wait, blocks until the receipt is in;
// without, it returns when the message is written. On a ready connection that takes 5 s
// at most, the wait for stream credit included. The error is a *kinds.Error.
func (n *Node) Send(ctx context.Context, message kinds.Checked, wait bool) (Outcome, error) {
	out, err := n.encode(message, kinds.Message, wire.StreamMessage)
	if err != nil {
		return "", err
	}
	defer out.drop()
	r, fail := n.reach(message.To)
	if fail != nil {
		return "", fail
	}
	for try := 1; ; try++ {
		c, fail := r.ready(ctx)
		if fail != nil {
			return "", fail
		}
		outcome, fail := c.send(ctx, message.Kind, out, wait)
		if fail == nil {
			return outcome, nil
		}
		if fail != errNothingSent || try == 3 {
			return "", n.final(fail, message.To)
		}
	}
}

func (c *conn) send(ctx context.Context, kind string, out *sealed, wait bool) (Outcome, *kinds.Error) {
	if err := out.fits(kind, int(c.hello.MaxMessage)); err != nil {
		return "", err.(*kinds.Error)
	}
	if c.unreceipted() >= maxReceipts {
		return "", kinds.Errorf(kinds.Overloaded, "%s owes %d receipts; try again later", c.node.nameOf(c.id), maxReceipts).WithDelivered(kinds.DeliveredNo)
	}
	if c.begin() != nil {
		return "", errNothingSent
	}
	ctx, cancel := context.WithTimeout(ctx, wire.ReceiptDeadline)
	defer cancel()
	s, err := c.qc.OpenUniStreamSync(ctx)
	if err != nil {
		c.finish()
		if ctx.Err() != nil {
			return "", contextError(c.node, ctx, c.id, kinds.DeliveredNo)
		}
		return "", c.openError(err)
	}
	var answer chan *wire.Receipt
	if wait {
		answer = make(chan *wire.Receipt, 1)
	}
	c.mu.Lock()
	c.receipts[s.StreamID()] = answer
	c.mu.Unlock()

	stop := context.AfterFunc(ctx, func() { s.CancelWrite(streamCancelled) })
	defer stop()
	if wait {
		err = c.outbox.write(s, out.take())
	} else if err = (outgoing{s, out.take()}).write(); err == nil && !stop() {
		err = ctx.Err() // and the stream was reset
	}
	if err != nil {
		c.forget(s.StreamID())
		return "", c.node.callError(ctx, c, err)
	}
	if !wait {
		return Sent, nil
	}
	select {
	case r := <-answer:
		return c.outcome(r)
	case <-ctx.Done():
	case <-c.qc.Context().Done():
	}
	// The receipt may have come together with the end.
	if !c.forget(s.StreamID()) {
		return c.outcome(<-answer)
	}
	if c.qc.Context().Err() != nil {
		return "", c.node.connectionError(c.id, context.Cause(c.qc.Context()))
	}
	return "", contextError(c.node, ctx, c.id, kinds.DeliveredUnknown)
}

// maxReceipts bounds what a peer may leave without receipt: as a rule its stream
// credit does, but it may give that back without a word.
const maxReceipts = 4096

func (c *conn) unreceipted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.receipts)
}

func (c *conn) outcome(r *wire.Receipt) (Outcome, *kinds.Error) {
	switch r.State {
	case wire.Handed:
		return Handed, nil
	case wire.Held:
		return Held, nil
	}
	return "", by(c.id, kinds.FromWire(r.Code, r.Message, r.RetryAfterMS))
}

// forget gives a receipt up; it reports whether it had not come yet.
func (c *conn) forget(id quic.StreamID) bool {
	c.mu.Lock()
	_, waits := c.receipts[id]
	delete(c.receipts, id)
	c.mu.Unlock()
	if waits {
		c.finish()
	}
	return waits
}

// takeReceipt hands a receipt to whoever waits; one for an unknown stream is
// ignored, since its sender may have given up.
func (c *conn) takeReceipt(r *wire.Receipt) {
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
	c.finish()
}

// acceptMessages serves the peer's unidirectional streams, each in a goroutine.
func (c *conn) acceptMessages() {
	for {
		s, err := c.qc.AcceptUniStream(context.Background())
		if err != nil {
			return
		}
		if err := c.mayServe(); err != nil {
			s.CancelRead(streamOverloaded)
			c.refuseMessage(&wire.Receipt{Stream: uint64(s.StreamID())}, c.readError(streamOverloaded, err))
			c.credit.release(s)
			continue
		}
		if !c.node.serving(func() { c.serveMessage(s) }) {
			s.CancelRead(streamGoingAway)
			c.credit.release(s)
			c.remote.streams.Give(1)
		}
	}
}

// serveMessage reads one message and answers with its receipt, which names the
// stream, so that even an undecodable message gets one.
func (c *conn) serveMessage(s *quic.ReceiveStream) {
	defer c.credit.release(s)
	defer c.remote.streams.Give(1)
	r := &wire.Receipt{Stream: uint64(s.StreamID())}
	defer c.recovered(func() {
		r.State, r.Code, r.Message = wire.Refused, string(kinds.Internal), "the handler failed"
		c.control.send(r)
	})
	state, err := c.take(s)
	if err == nil && state != wire.Handed && state != wire.Held {
		err = fmt.Errorf("the handler's outcome is %v", state)
	}
	switch {
	case errors.Is(err, errSecondControl):
		c.close(closeProtocolError, err.Error())
		return
	case err != nil:
		c.refuseMessage(r, err)
	default:
		r.State = state
		c.control.send(r)
	}
}

// refuseMessage answers a message with why it is not taken.
func (c *conn) refuseMessage(r *wire.Receipt, err error) {
	e := kinds.AsError(err).Foreign()
	r.State, r.Code, r.Message, r.RetryAfterMS = wire.Refused, string(e.Code), clip(e.Message), e.RetryAfterMS
	c.control.send(r)
}

var errSecondControl = errors.New("a second control stream")

// take reads, checks and hands over one message.
func (c *conn) take(s *quic.ReceiveStream) (wire.ReceiptState, error) {
	in := buffers.Get().(*bytes.Buffer)
	defer putBuffer(in)
	s.SetReadDeadline(time.Now().Add(byteTime))
	var typ [1]byte
	if _, err := io.ReadFull(s, typ[:]); err != nil {
		code := codeOf(err)
		s.CancelRead(code)
		return 0, c.readError(code, err)
	}
	c.hear()
	switch wire.StreamType(typ[0]) {
	case wire.StreamMessage:
	case wire.StreamControl:
		return 0, errSecondControl
	default:
		s.CancelRead(streamUnknown)
		return 0, kinds.Errorf(kinds.UnknownKind, "stream type %#x is not known in this direction", typ[0])
	}
	size, err := c.receive(s, in)
	defer c.remote.envelopes.Give(size)
	if err != nil {
		code := codeOf(err)
		s.CancelRead(code)
		return 0, c.readError(code, err)
	}
	env, err := wire.ParseEnvelope(in.Bytes())
	if err != nil {
		return 0, kinds.Errorf(kinds.Invalid, "%v", err)
	}
	message, err := c.check(env, kinds.Message)
	if err != nil {
		return 0, err
	}
	if c.node.cfg.Message == nil {
		return 0, kinds.Errorf(kinds.UnknownKind, "%s: nothing here takes it", env.Kind)
	}
	return c.node.cfg.Message(c.qc.Context(), message)
}

// readError is what the receipt of an unread message says.
func (c *conn) readError(code quic.StreamErrorCode, err error) *kinds.Error {
	switch code {
	case streamTooLarge:
		return kinds.Errorf(kinds.TooLarge, "the message is over %d bytes; send less, or a reference to it", c.node.cfg.MaxMessage)
	case streamOverloaded:
		e := kinds.Errorf(kinds.Overloaded, "%v; try again", err)
		e.RetryAfterMS = 1000
		return e
	case streamTimeout:
		return kinds.Errorf(kinds.Timeout, "the message did not arrive whole in time")
	case streamInvalid:
		return kinds.Errorf(kinds.Invalid, "the message ended early")
	}
	return kinds.Errorf(kinds.Cancelled, "the sender gave the message up")
}

// clip makes of foreign text what a receipt can carry.
func clip(s string) string {
	const most = 1024
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}
