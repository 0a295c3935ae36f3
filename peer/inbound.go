package peer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

const (
	byteTime     = 10 * time.Second // without a byte of an envelope
	envelopeTime = 60 * time.Second // for all of it
)

// inboundStream is a bidirectional stream of the peer that is not answered yet.
type inboundStream struct {
	stream  *quic.Stream
	decided atomic.Bool // it is settled whether the handler runs; see tryDecide
	passing Passing     // of a request that the handler gets
}

// tryDecide reports true only to its first caller: either the stream's goroutine, which then
// runs the handler, or whoever resets the stream, which then tells the peer that no handler ran.
// So only one of the two happens.
func (s *inboundStream) tryDecide() bool { return s.decided.CompareAndSwap(false, true) }

// acceptBidiStreams handles the peer's bidirectional streams, each in a goroutine, until
// the connection ends.
func (c *conn) acceptBidiStreams() {
	for {
		s, err := c.qc.AcceptStream(context.Background())
		if err != nil {
			return
		}
		code := streamOverloaded
		if c.reserveStream() == nil {
			if c.node.startOnWorker(func() { c.handleBidiStream(s) }) {
				continue
			}
			code = streamGoingAway
			c.peer.streams.Release(1)
		}
		resetStream(s, code)
		c.credit.releaseCredit(s)
	}
}

// manyStreams is the number of streams of one peer from which on others come first.
const manyStreams = 32

// reserveStream takes a place for one more stream of the peer, over all its connections.
// The goroutine that handles the stream gives the place back. A peer with many streams
// gets its turn after all goroutines that are ready to run: otherwise the requests of
// others would wait behind each of its streams.
func (c *conn) reserveStream() error {
	c.uses.Add(1)
	err := c.peer.streams.Reserve(1)
	used := c.peer.streams.Used()
	if used >= manyStreams {
		runtime.Gosched()
	}
	if err == nil && used >= soonerAt {
		c.node.unread.shortenPause()
	}
	return err
}

// startOnWorker runs f, which must be short or serve a stream, on a worker of the node, and
// reports whether it did. Unlike startTask it does so while the node drains: streams that still
// arrive are served, and a drain needs its done and its probes.
func (n *Node) startOnWorker(f func()) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.ctx.Err() != nil {
		return false
	}
	n.workers.Start(f, n.tasks.Go)
	return true
}

// handleBidiStream serves one bidirectional stream and resets it if that fails.
func (c *conn) handleBidiStream(s *quic.Stream) {
	defer c.credit.releaseCredit(s)
	defer c.peer.streams.Release(1)
	inbound := &inboundStream{stream: s}
	c.mu.Lock()
	c.inbound[s.StreamID()] = inbound
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.inbound, s.StreamID())
		c.mu.Unlock()
	}()
	defer c.recoverFromPanic(func() { resetStream(s, streamInternal) })
	if code := c.dispatchStream(inbound); code != streamNone {
		resetStream(s, code)
	}
}

// resetStream gives up both directions of a stream.
func resetStream(s *quic.Stream, code quic.StreamErrorCode) {
	s.CancelRead(code)
	s.CancelWrite(code)
}

// dispatchStream reads the stream's type and answers a request, or calls the handler of
// another type. The code says why it failed; streamNone: it did not.
func (c *conn) dispatchStream(inbound *inboundStream) quic.StreamErrorCode {
	s := inbound.stream
	s.SetReadDeadline(time.Now().Add(byteTime))
	var typ [1]byte
	if _, err := io.ReadFull(s, typ[:]); err != nil {
		return toResetCode(err)
	}
	c.markHeard()
	if t := wire.StreamType(typ[0]); t != wire.StreamExchange {
		h := c.node.handlers[t]
		if h == nil {
			return streamUnknown
		}
		if !inbound.tryDecide() {
			return streamGoingAway
		}
		s.SetReadDeadline(time.Time{})
		st := &Stream{s: s, connLeaving: c.leavingBegan, path: c.endpoint.path, done: func() {}}
		h(s.Context(), c.id, st)
		st.Close()
		return streamNone
	}
	env, size, err := c.readEnvelope(s)
	defer c.peer.envelopes.Release(size)
	if err != nil {
		return toResetCode(err)
	}
	if !inbound.tryDecide() {
		return streamGoingAway
	}
	reply := c.answerRequest(s.Context(), env, &inbound.passing)
	if s.Context().Err() != nil {
		return streamCancelled // the sender gave up
	}
	out, err := encode(reply)
	if err != nil {
		out, err = encode(kinds.NewErrorReply(env, err))
	} else if size := out.size(); size > int(c.peerHello.MaxMessage) {
		out.release()
		out, err = encode(kinds.NewErrorReply(env, kinds.Errorf(kinds.TooLarge, "%s: the reply has %d bytes, %d are allowed; ask for less", env.Kind, size, c.peerHello.MaxMessage)))
	}
	if err != nil {
		return streamInternal
	}
	if out.size() > onePacket {
		s.SetWriteDeadline(time.Now().Add(envelopeTime))
	}
	if err := c.outbox.writeMessage(s, out); err != nil {
		return streamInternal // the sender gave up, or reads too slowly; the handler ran
	}
	return streamNone
}

// answerRequest checks a request, calls the handler with p and returns the reply, or an error
// envelope.
func (c *conn) answerRequest(ctx context.Context, env *wire.Envelope, p *Passing) *wire.Envelope {
	if err := c.beginReceived(p, env, kinds.Exchange); err != nil {
		reply := kinds.NewErrorReply(env, err)
		reply.From, reply.To = c.node.self, c.id // the request may name others
		return reply
	}
	defer c.node.cfg.Observer.Ended(p)
	if p.Reply, p.Err = c.callExchange(ctx, p); p.Err != nil {
		c.logCause(p.Err)
		p.Reply = kinds.NewErrorReply(env, p.Err)
	}
	if _, err := kinds.CheckEnvelope(p.Reply); err != nil { // an agent's error may be invalid too
		p.Err = kinds.Errorf(kinds.Internal, "%s: the answer is not valid: %v", p.Kind, err)
		p.Reply = kinds.NewErrorReply(env, p.Err)
	}
	return p.Reply
}

// callExchange calls the handler of a request and checks that its reply answers it.
func (c *conn) callExchange(ctx context.Context, p *Passing) (*wire.Envelope, error) {
	if c.node.cfg.Exchange == nil {
		return nil, kinds.Errorf(kinds.UnknownKind, "%s: nothing here answers it", p.Kind)
	}
	reply, err := c.node.cfg.Exchange(ctx, p)
	switch {
	case err != nil:
		return nil, err
	case reply == nil:
		return nil, ownwords.New("the handler gave no reply")
	case !p.Spec.AllowsReply(reply.Kind):
		return nil, ownwords.New("the handler answered with a kind that does not answer this one")
	case reply.From != c.node.self || reply.To != c.id || reply.Ref == nil || *reply.Ref != p.ID:
		return nil, ownwords.New("the handler answered another request")
	}
	return reply, nil
}

// logCause logs, at level debug, what an error that is sent to the peer leaves out.
func (c *conn) logCause(err error) {
	if cause := ownwords.FindForeign(err); cause != "" {
		c.node.peerLog.WriteLimited(c.id, slog.LevelDebug, "a message was not answered", "peer", c.id.Label(), "cause", cause)
	}
}

// beginReceived checks that an envelope is from the peer, which is still trusted, to this node, is valid, and
// travels as its class does. Then the message begins, in the memory of p.
func (c *conn) beginReceived(p *Passing, env *wire.Envelope, class kinds.Class) (err error) {
	if env.From != c.id || env.To != c.node.self {
		c.node.peerLog.WriteLimited(c.id, slog.LevelWarn, "spoofed message refused", "peer", c.id.Label(), "id", env.ID, "from", env.From.Label(), "to", env.To.Label())
		return kinds.Errorf(kinds.NotAuthorized, "from and to must be the ids that the connection has proved")
	}
	if p.Checked, err = kinds.CheckEnvelope(env); err != nil {
		return err
	}
	if p.Spec.Class != class {
		return kinds.Errorf(kinds.Invalid, "%s: kind: it does not travel on this type of stream", env.Kind)
	}
	if p.Sender, p.Inbound = c.node.cfg.Trust.FindPeer(c.id); !p.Inbound {
		return NewUntrustedError(env)
	}
	c.node.begin(p)
	return nil
}

// readEnvelope reads one envelope, bounded by the deadlines, max_message and the peer's share of
// the budget, and decodes it. s has a read deadline of byteTime already. The caller gives size back
// to the share, whatever the error. That of an envelope that came whole is a [wire.FormatError].
func (c *conn) readEnvelope(s deadlineReader) (env *wire.Envelope, size int64, err error) {
	in := newReceived()
	defer in.release()
	size, err = in.readSteadily(s, c.node.cfg.MaxMessage, c.peer.envelopes)
	if err == nil {
		env, err = in.parseEnvelope()
	}
	return env, size, err
}

// toResetCode returns the stream code for the error of an envelope that was not read.
func toResetCode(err error) quic.StreamErrorCode {
	_, over := errors.AsType[*budget.ExceededError](err)
	_, malformed := errors.AsType[*wire.FormatError](err)
	switch {
	case errors.Is(err, errTooLarge):
		return streamTooLarge
	case over:
		return streamOverloaded
	case errors.Is(err, os.ErrDeadlineExceeded):
		return streamTimeout
	case malformed:
		return streamInvalid
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return streamInvalid
	}
	return streamCancelled
}

// recoverFromPanic recovers from a handler's panic, logs its stack and calls fail: one
// message must not end the daemon.
func (c *conn) recoverFromPanic(fail func()) {
	if v := recover(); v != nil {
		c.node.peerLog.WriteLimited(c.id, slog.LevelError, "handler panicked", "peer", c.id.Label(), "panic", v, "stack", string(debug.Stack()))
		fail()
	}
}
