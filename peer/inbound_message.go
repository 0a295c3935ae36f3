package peer

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// acceptUniStreams handles the peer's unidirectional streams, each in a goroutine, until
// the connection ends.
func (c *conn) acceptUniStreams() {
	for {
		s, err := c.qc.AcceptUniStream(context.Background())
		if err != nil {
			return
		}
		if err := c.reserveStream(); err != nil {
			s.CancelRead(streamOverloaded)
			c.refuseMessage(&wire.Receipt{Stream: uint64(s.StreamID())}, c.newUnreadError(streamOverloaded, err))
			c.credit.releaseCredit(s)
			continue
		}
		if !c.node.startOnWorker(func() { c.handleMessage(s) }) {
			s.CancelRead(streamGoingAway)
			c.credit.releaseCredit(s)
			c.peer.streams.Release(1)
		}
	}
}

// handleMessage reads one message, hands it over and sends its receipt. A receipt names
// the stream, so that even an undecodable message gets one.
func (c *conn) handleMessage(s *quic.ReceiveStream) {
	defer c.credit.releaseCredit(s)
	defer c.peer.streams.Release(1)
	r := &wire.Receipt{Stream: uint64(s.StreamID())}
	defer c.recoverFromPanic(func() {
		r.State, r.Code, r.Message = wire.Refused, string(kinds.Internal), "the handler failed"
		c.control.sendItem(r)
	})
	state, err := c.receiveMessage(s)
	switch {
	case errors.Is(err, errSecondControl):
		c.close(closeProtocolError, describeCause(err))
		return
	case err != nil:
		c.refuseMessage(r, err)
	default:
		r.State = state
		c.control.sendItem(r)
	}
}

// refuseMessage sends the receipt of a message that is not taken.
func (c *conn) refuseMessage(r *wire.Receipt, err error) {
	c.logCause(err)
	e := kinds.AsError(err).SanitizeForDaemon()
	r.State, r.Code, r.Message, r.RetryAfterMS = wire.Refused, string(e.Code), clipReceiptText(e.Message), e.RetryAfterMS
	r.Undelivered = e.Delivered() == kinds.DeliveredNo
	c.control.sendItem(r)
}

var errSecondControl = ownwords.New("a second control stream")

// receiveMessage reads one message, checks it and calls the handler. The error becomes
// the receipt's, but for errSecondControl, which ends the connection.
func (c *conn) receiveMessage(s *quic.ReceiveStream) (wire.ReceiptState, error) {
	s.SetReadDeadline(time.Now().Add(byteTime))
	var typ [1]byte
	if _, err := io.ReadFull(s, typ[:]); err != nil {
		code := toResetCode(err)
		s.CancelRead(code)
		return 0, c.newUnreadError(code, err)
	}
	c.markHeard()
	switch wire.StreamType(typ[0]) {
	case wire.StreamMessage:
	case wire.StreamControl:
		return 0, errSecondControl
	default:
		s.CancelRead(streamUnknown)
		return 0, kinds.Errorf(kinds.UnknownKind, "stream type %#x is not known in this direction", typ[0])
	}
	env, size, err := c.readEnvelope(s)
	defer c.peer.envelopes.Release(size)
	if _, malformed := errors.AsType[*wire.FormatError](err); malformed {
		return 0, kinds.Errorf(kinds.Invalid, "%v", err)
	}
	if err != nil {
		code := toResetCode(err)
		s.CancelRead(code)
		return 0, c.newUnreadError(code, err)
	}
	if c.node.cfg.Message == nil {
		return 0, kinds.Errorf(kinds.UnknownKind, "%s: nothing here takes it", env.Kind)
	}
	p := new(Passing)
	if err := c.beginReceived(p, env, kinds.Message); err != nil {
		return 0, err
	}
	defer c.node.cfg.Observer.Ended(p)
	state, err := c.node.cfg.Message(c.qc.Context(), p)
	if err == nil && state != wire.Handed && state != wire.Held {
		err = ownwords.Errorf("the handler's outcome is %v", state)
	}
	if p.Err = err; err == nil {
		p.Outcome = Outcome(state.String())
	}
	return state, err
}

// newUnreadError returns the error for the receipt of a message that was not read whole.
func (c *conn) newUnreadError(code quic.StreamErrorCode, err error) *kinds.Error {
	switch code {
	case streamTooLarge:
		return kinds.Errorf(kinds.TooLarge, "the message is over %d bytes; send less, or a reference to it", c.node.cfg.MaxMessage)
	case streamOverloaded:
		e := kinds.Errorf(kinds.Overloaded, "%v; try again", err)
		e.RetryAfterMS = 1000
		return e.WithDelivered(kinds.DeliveredNo)
	case streamTimeout:
		return kinds.Errorf(kinds.Timeout, "the message did not arrive whole in time").WithDelivered(kinds.DeliveredNo)
	case streamInvalid:
		return kinds.Errorf(kinds.Invalid, "the message ended early")
	}
	return kinds.Errorf(kinds.Cancelled, "the sender gave the message up")
}

// clipReceiptText shortens s to fit a receipt and drops invalid UTF-8.
func clipReceiptText(s string) string {
	const most = 1024
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}
