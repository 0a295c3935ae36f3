package peer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Exchange sends a request to its receiver and blocks until the reply is in, ctx ends,
// or the peer is found dead. rtt runs from the first byte out to the last byte in. The
// error is a *kinds.Error; an error envelope of the peer comes back as one with From
// set. When ctx ends, the peer's handler is told. A reply that the peer's share has no
// room for is overloaded, delivered unknown: the peer has the request then.
func (n *Node) Exchange(ctx context.Context, request kinds.Checked) (reply *wire.Envelope, rtt time.Duration, err error) {
	out, err := n.encode(request, kinds.Exchange, wire.StreamExchange)
	if err != nil {
		return nil, 0, err
	}
	defer out.free()
	r, fail := n.trustedState(request.To)
	if fail != nil {
		return nil, 0, fail
	}
	limit := int32(maxExchanges)
	if request.Kind == kinds.KindPing || request.Kind == kinds.KindCancel {
		limit += spare
	}
	if !incrementBelow(&r.openStreams.exchanges, limit) {
		return nil, 0, kinds.Errorf(kinds.Overloaded, "%d calls to %s are open; wait for one to end", limit, n.nameOf(request.To)).WithDelivered(kinds.DeliveredNo)
	}
	defer r.openStreams.exchanges.Add(-1)
	for try := 1; ; try++ {
		c, fail := r.readyConn(ctx)
		if fail != nil {
			return nil, 0, fail
		}
		reply, rtt, fail = c.exchange(ctx, request, out)
		if fail == nil {
			return reply, rtt, nil
		}
		if fail != errNothingSent || try == 3 {
			return nil, rtt, n.finalError(fail, request.To)
		}
	}
}

// errNothingSent says that a connection went away before a byte left. Another connection
// may be tried.
var errNothingSent = kinds.Errorf(kinds.Unreachable, "the connection went away").WithDelivered(kinds.DeliveredNo)

// finalError returns the error for the caller when no further connection is tried.
func (n *Node) finalError(err *kinds.Error, to identity.ID) *kinds.Error {
	if err == errNothingSent {
		return n.unreachableError(to, kinds.DeliveredNo, "its connections go away as fast as they come; try again")
	}
	return err
}

// encoded holds an encoded envelope until it is sent.
type encoded struct{ buf *bytes.Buffer }

// handOver returns the buffer, which the outbox owns from then on.
func (s *encoded) handOver() *bytes.Buffer {
	buf := s.buf
	s.buf = nil
	return buf
}

// free gives the buffer back if it was not handed over.
func (s *encoded) free() {
	if s.buf != nil {
		putBuffer(s.handOver())
	}
}

// encode returns the stream type and an envelope of this node, encoded. The caller frees
// the result.
func (n *Node) encode(env kinds.Checked, class kinds.Class, t wire.StreamType) (*encoded, error) {
	switch {
	case env.From != n.self:
		return nil, kinds.Errorf(kinds.Invalid, "%s: from: it is not this daemon", env.Kind)
	case env.To == n.self:
		return nil, kinds.Errorf(kinds.Invalid, "%s: to: a message to oneself; name a peer", env.Kind)
	case env.Spec.Class != class:
		return nil, kinds.Errorf(kinds.Invalid, "%s: kind: it does not travel this way", env.Kind)
	}
	out := &encoded{buffers.Get().(*bytes.Buffer)}
	if err := env.Append(out.buf, t); err != nil {
		out.free()
		return nil, kinds.Errorf(kinds.Internal, "%s: %v", env.Kind, err)
	}
	if err := out.checkSize(env.Kind, n.cfg.MaxMessage); err != nil {
		out.free()
		return nil, err
	}
	return out, nil
}

// checkSize returns too_large if the envelope has more than limit bytes.
func (s *encoded) checkSize(kind string, limit int) error {
	if size := s.buf.Len() - 1; size > limit {
		return kinds.Errorf(kinds.TooLarge, "%s: the envelope has %d bytes, %d are allowed; send less, or a reference to it", kind, size, limit).WithDelivered(kinds.DeliveredNo)
	}
	return nil
}

// exchange sends a request on this connection and blocks until its reply is in. The error
// is errNothingSent if another connection may be tried.
func (c *conn) exchange(ctx context.Context, env kinds.Checked, out *encoded) (*wire.Envelope, time.Duration, *kinds.Error) {
	if err := out.checkSize(env.Kind, int(c.hello.MaxMessage)); err != nil {
		return nil, 0, err.(*kinds.Error)
	}
	if c.beginStream() != nil {
		return nil, 0, errNothingSent
	}
	defer c.finishStream()
	s, err := c.qc.OpenStream()
	if err != nil {
		return nil, 0, c.openStreamError(err)
	}
	start := time.Now()
	in := buffers.Get().(*bytes.Buffer)
	defer putBuffer(in)
	stop := context.AfterFunc(ctx, func() {
		s.CancelRead(streamCancelled)
		s.CancelWrite(streamCancelled)
	})
	defer stop()
	if err = c.outbox.write(s, out.handOver()); err == nil {
		var size int64
		size, err = c.readReply(s, in)
		defer c.peer.replies.Give(size)
	} else {
		s.CancelRead(streamCancelled)
	}
	rtt := time.Since(start)
	if err != nil {
		switch over, ok := errors.AsType[*budget.Exceeded](err); {
		case errors.Is(err, errTooLarge):
			s.CancelRead(streamTooLarge)
			return nil, rtt, kinds.Errorf(kinds.TooLarge, "%s: the reply of %s is over %d bytes; ask for less", env.Kind, c.node.nameOf(c.id), c.node.cfg.MaxMessage)
		case ok:
			s.CancelRead(streamOverloaded)
			return nil, rtt, c.noRoomError(env.Envelope, over)
		}
		return nil, rtt, c.node.callError(ctx, c, err)
	}
	c.noteHeard()
	reply, fail := c.parseReply(env, in.Bytes())
	return reply, rtt, fail
}

// readReply reads a reply, bounded by max_message and the peer's share of the budget. The
// caller gives size back to the share, whatever the error. It does not wait for room:
// calls that hold a part each would wait for each other.
func (c *conn) readReply(s io.Reader, buf *bytes.Buffer) (size int64, err error) {
	err = readLimited(s, buf, c.node.cfg.MaxMessage, func(n int) error {
		if err := c.peer.replies.Take(int64(n)); err != nil {
			return err
		}
		size += int64(n)
		return nil
	})
	return size, err
}

// noRoomError returns the error of a call whose reply found no room in the budget.
func (c *conn) noRoomError(env *wire.Envelope, over *budget.Exceeded) *kinds.Error {
	e := kinds.Errorf(kinds.Overloaded, "%s: %s answers, but there is no room here for its reply: %v; wait for other calls to end, or ask for less, then repeat with the same id", env.Kind, c.node.nameOf(c.id), over)
	e.RetryAfterMS = 1000
	return e.WithDelivered(kinds.DeliveredUnknown)
}

// openStreamError returns the error of a call whose stream could not be opened. Nothing
// was sent.
func (c *conn) openStreamError(err error) *kinds.Error {
	if _, ok := errors.AsType[*quic.StreamLimitReachedError](err); ok {
		return kinds.Errorf(kinds.Overloaded, "%s takes no more streams now; try again", c.node.nameOf(c.id)).WithDelivered(kinds.DeliveredNo)
	}
	c.peer.noteRefusal(c)
	c.stopOpening(closeDead)
	return errNothingSent
}

// parseReply decodes a reply and checks that it answers env. The error is of this node,
// or, for an error envelope, the peer's.
func (c *conn) parseReply(env kinds.Checked, b []byte) (*wire.Envelope, *kinds.Error) {
	bad := func(problem string) *kinds.Error {
		return kinds.Errorf(kinds.Internal, "%s: the reply of %s is not valid: %s", env.Kind, c.node.nameOf(c.id), cleanText(problem)).WithDelivered(kinds.DeliveredUnknown)
	}
	reply, err := wire.ParseEnvelope(b)
	if err != nil {
		return nil, bad(err.Error())
	}
	switch {
	case reply.From != c.id || reply.To != c.node.self:
		return nil, bad("from or to is not the connection's")
	case reply.Ref == nil || *reply.Ref != env.ID:
		return nil, bad("ref does not name the message")
	case !env.Spec.Answers(reply.Kind):
		return nil, bad("its kind does not answer this one")
	}
	if _, err := kinds.Check(reply); err != nil {
		return nil, bad(err.Error())
	}
	if reply.Kind == kinds.KindError {
		e, err := kinds.Parse[kinds.Error](reply.Payload)
		if err != nil {
			return nil, bad(err.Error())
		}
		return nil, raisedBy(c.id, e.Foreign())
	}
	return reply, nil
}

// buffers holds buffers for encoded envelopes; those over keepBuffer are not kept.
var buffers = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, 4<<10)) }}

const keepBuffer = 256 << 10

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= keepBuffer {
		b.Reset()
		buffers.Put(b)
	}
}

var errTooLarge = errors.New("message too large")

// readLimited reads to the end of the stream. The error is errTooLarge beyond limit bytes,
// and that of reserve, which is called with the size of each piece.
func readLimited(r io.Reader, buf *bytes.Buffer, limit int, reserve func(int) error) error {
	for {
		buf.Grow(2 << 10)
		b := buf.AvailableBuffer()
		n, err := r.Read(b[:cap(b)])
		buf.Write(b[:n])
		if buf.Len() > limit {
			return errTooLarge
		}
		if over := reserve(n); over != nil {
			return over
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
