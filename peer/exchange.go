package peer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Exchange sends a request to its receiver and blocks until the reply is in, ctx ends,
// or the peer is found dead. rtt runs from the first byte out to the last byte in. The
// error is a *kinds.Error; an error envelope of the peer comes back as one with From
// set. When ctx ends, the peer's handler is cancelled. A reply that the peer's share has no
// room for is overloaded, delivered unknown: the peer has the request then.
func (n *Node) Exchange(ctx context.Context, request kinds.Checked) (reply *wire.Envelope, rtt time.Duration, err error) {
	p := n.begin(&Passing{Checked: request})
	defer n.cfg.Observer.Ended(p)
	p.Reply, rtt, p.Err = n.exchange(ctx, request)
	return p.Reply, rtt, p.Err
}

func (n *Node) exchange(ctx context.Context, request kinds.Checked) (reply *wire.Envelope, rtt time.Duration, err error) {
	out, err := n.encodeEnvelope(request, kinds.Exchange, wire.StreamExchange)
	if err != nil {
		return nil, 0, err
	}
	defer out.release()
	state, fail := n.findTrustedState(request.To)
	if fail != nil {
		return nil, 0, fail
	}
	limit := int32(maxExchanges)
	if request.Spec.Has(kinds.Spare) {
		limit += spareExchanges
	}
	if !incrementBelow(&state.callSlots.exchanges, limit) {
		return nil, 0, kinds.Errorf(kinds.Overloaded, "%d calls to %s are open; wait for one to end", limit, n.peerName(request.To)).WithDelivered(kinds.DeliveredNo)
	}
	defer state.callSlots.exchanges.Add(-1)
	fail = state.sendOnReadyConn(ctx, func(c *conn) (err *kinds.Error) {
		reply, rtt, err = c.sendRequest(ctx, request, &out)
		return err
	})
	if fail != nil {
		return nil, rtt, fail
	}
	return reply, rtt, nil
}

// errNothingSent says that a connection went away before a byte left. Another connection
// may be tried.
var errNothingSent = kinds.Errorf(kinds.Unreachable, "the connection went away").WithDelivered(kinds.DeliveredNo)

// sendOnReadyConn calls send with a ready connection. If nothing was sent, because that one is
// leaving, it tries two more. A connection is marked as leaving before another one is selected, so
// sendOnReadyConn selects again itself: else all three tries could meet the same connection.
func (state *peerState) sendOnReadyConn(ctx context.Context, send func(*conn) *kinds.Error) *kinds.Error {
	for range 3 {
		c, fail := state.ensureReadyConn(ctx)
		if fail == nil {
			fail = send(c)
		}
		if fail != errNothingSent {
			return fail
		}
		state.reselectCurrentConn()
	}
	return state.node.newUnreachableError(state.id, kinds.DeliveredNo, "its connections go away as fast as they come; try again")
}

// encodeEnvelope returns the stream type and an envelope of this node, encoded. The caller takes or
// releases the result.
func (n *Node) encodeEnvelope(env kinds.Checked, class kinds.Class, t wire.StreamType) (outgoing, error) {
	switch {
	case env.From != n.self:
		return outgoing{}, kinds.Errorf(kinds.Invalid, "%s: from: it is not this daemon", env.Kind)
	case env.To == n.self:
		return outgoing{}, kinds.Errorf(kinds.Invalid, "%s: to: a message to oneself; name a peer", env.Kind)
	case env.Spec.Class != class:
		return outgoing{}, kinds.Errorf(kinds.Invalid, "%s: kind: it does not travel this way", env.Kind)
	}
	out, err := encode(env.Envelope, byte(t))
	if err != nil {
		return outgoing{}, kinds.Errorf(kinds.Internal, "%s: %v", env.Kind, err)
	}
	if err := out.checkSize(env.Kind, n.cfg.MaxMessage); err != nil {
		out.release()
		return outgoing{}, err
	}
	return out, nil
}

// sendRequest sends a request on this connection and blocks until its reply is in. The error
// is errNothingSent if another connection may be tried.
func (c *conn) sendRequest(ctx context.Context, env kinds.Checked, out *outgoing) (*wire.Envelope, time.Duration, *kinds.Error) {
	if err := out.checkSize(env.Kind, int(c.peerHello.MaxMessage)); err != nil {
		return nil, 0, err.(*kinds.Error)
	}
	if env.Ref != nil && env.Kind == kinds.KindQuery && !slices.Contains(c.peerHello.Features, FeatureQuestions) {
		return nil, 0, kinds.Errorf(kinds.UnknownKind, "query: ref: %s takes no questions about delegations: update acpd there, or go on without an answer", c.node.peerName(c.id)).WithDelivered(kinds.DeliveredNo)
	}
	ctx, forget := c.watchUnheard(ctx)
	defer forget()
	if !c.tryAddOwnStream() {
		return nil, 0, errNothingSent
	}
	defer c.removeOwnStream()
	s, err := c.qc.OpenStream()
	if err != nil {
		return nil, 0, c.toOpenStreamError(err)
	}
	start := time.Now()
	in := newReceived()
	defer in.release()
	stop := callAfter(ctx, func() { resetStream(s, streamCancelled) })
	defer stop()
	if err := c.outbox.writeMessage(s, out.take()); err != nil {
		s.CancelRead(streamCancelled)
		return nil, time.Since(start), c.node.toWriteError(ctx, c, err)
	}
	// It does not wait for room: calls that hold a part each would wait for each other.
	size, err := in.readLimited(s, c.node.cfg.MaxMessage, c.peer.replies)
	defer c.peer.replies.Release(size)
	rtt := time.Since(start)
	if err != nil {
		switch over, ok := errors.AsType[*budget.ExceededError](err); {
		case errors.Is(err, errTooLarge):
			s.CancelRead(streamTooLarge)
			return nil, rtt, kinds.Errorf(kinds.TooLarge, "%s: the reply of %s is over %d bytes; ask for less", env.Kind, c.node.peerName(c.id), c.node.cfg.MaxMessage).WithDelivered(kinds.DeliveredUnknown)
		case ok:
			s.CancelRead(streamOverloaded)
			return nil, rtt, c.newNoRoomError(env.Envelope, over)
		}
		return nil, rtt, c.node.toCallError(ctx, c, err)
	}
	c.markHeard()
	reply, fail := c.parseReply(env, in)
	return reply, rtt, fail
}

// callAfter calls f in a goroutine of its own when ctx has ended, unless stop is called before, as
// [context.AfterFunc] does. A context with a method for that, as local calls have, needs no memory
// for another one.
func callAfter(ctx context.Context, f func()) (stop func() bool) {
	if own, ok := ctx.(interface{ AfterFunc(func()) func() bool }); ok {
		return own.AfterFunc(f)
	}
	return context.AfterFunc(ctx, f)
}

// newNoRoomError returns the error of a call whose reply found no room in the budget.
func (c *conn) newNoRoomError(env *wire.Envelope, over *budget.ExceededError) *kinds.Error {
	e := kinds.Errorf(kinds.Overloaded, "%s: %s answers, but there is no room here for its reply: %v; wait for other calls to end, or ask for less, then repeat with the same id", env.Kind, c.node.peerName(c.id), over)
	e.RetryAfterMS = 1000
	return e.WithDelivered(kinds.DeliveredUnknown)
}

// toOpenStreamError returns the error of a call whose stream could not be opened. Nothing
// was sent.
func (c *conn) toOpenStreamError(err error) *kinds.Error {
	if _, ok := errors.AsType[*quic.StreamLimitReachedError](err); ok {
		return kinds.Errorf(kinds.Overloaded, "%s takes no more streams now; try again", c.node.peerName(c.id)).WithDelivered(kinds.DeliveredNo)
	}
	c.peer.recordRefusalByPeer(c, err) // streams end before endCause is set
	c.markLeaving(closeDead)
	return errNothingSent
}

// parseReply decodes a reply and checks that it answers env. The error is of this node,
// or, for an error envelope, the peer's.
func (c *conn) parseReply(env kinds.Checked, in *received) (*wire.Envelope, *kinds.Error) {
	bad := func(problem string) *kinds.Error {
		c.node.log.Debug("a reply is not valid", "peer", c.id.Label(), "kind", env.Kind, "problem", problem)
		return kinds.Errorf(kinds.Internal, "%s: the reply of %s is not valid: update the older of the two daemons, or have its owner look after its agents", env.Kind, c.node.peerName(c.id)).WithDelivered(kinds.DeliveredUnknown)
	}
	reply, err := in.parseEnvelope()
	if err != nil {
		return nil, bad(ownwords.Of(err))
	}
	switch {
	case reply.From != c.id || reply.To != c.node.self:
		return nil, bad("from or to is not the connection's")
	case reply.Ref == nil || *reply.Ref != env.ID:
		return nil, bad("ref does not name the message")
	case !env.Spec.AllowsReply(reply.Kind):
		return nil, bad("its kind does not answer this one")
	}
	if _, err := kinds.CheckEnvelope(reply); err != nil {
		return nil, bad(ownwords.Of(err))
	}
	if reply.Kind == kinds.KindError {
		e, err := kinds.ParsePayload[kinds.Error](reply.Payload)
		if err != nil {
			return nil, bad(ownwords.Of(err))
		}
		return nil, markRemoteError(c.id, e.SanitizeForDaemon())
	}
	return reply, nil
}
