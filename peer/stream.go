package peer

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Stream is a bidirectional stream of a bridge. Reads and writes block on the
// peer's flow control and end with ctx of the call that opened it; their errors
// are QUIC's. Exactly one goroutine may read and one may write.
type Stream struct {
	s           *quic.Stream
	connLeaving <-chan struct{} // leavingBegan of its connection
	path        Path            // of its connection
	done        func()          // called once, at the end
	ended       atomic.Bool
}

// features holds the feature that a hello must announce for each type of stream.
var features = map[wire.StreamType]string{
	wire.StreamMail: "mail",
	wire.StreamHTTP: FeatureChannel,
	wire.StreamFile: "file",
}

// FeatureChannel is the feature of a hello whose sender takes requests about channels. In 0.1.0 it
// was "channel", with other requests between daemons.
const FeatureChannel = "channel2"

// FeatureQuestions is the feature of a hello whose sender takes a query with a ref as a
// question about a delegation. Without it, no such query is sent.
const FeatureQuestions = "questions"

// FeatureAgents is the feature of a hello whose sender wants to know when an agent has come: see [Node.TellAgents].
const FeatureAgents = "agents"

// OpenStream opens a stream of a type that the peer announced in its hello and
// writes the type. It blocks like Exchange does until a connection is ready.
// The caller ends it with Close or Cancel; when ctx ends, it is cancelled.
func (n *Node) OpenStream(ctx context.Context, to identity.ID, t wire.StreamType) (*Stream, error) {
	state, fail := n.findTrustedState(to)
	if fail != nil {
		return nil, fail
	}
	if !incrementBelow(&state.callSlots.bulk, maxBulk) {
		return nil, kinds.Errorf(kinds.Overloaded, "%d streams to %s are open; wait for one to end", maxBulk, n.peerName(to)).WithDelivered(kinds.DeliveredNo)
	}
	var s *Stream
	fail = state.sendOnReadyConn(ctx, func(c *conn) (err *kinds.Error) {
		s, err = c.openBridgeStream(ctx, t)
		return err
	})
	if fail != nil {
		state.callSlots.bulk.Add(-1)
		return nil, fail
	}
	end := s.done
	s.done = func() { end(); state.callSlots.bulk.Add(-1) }
	return s, nil
}

// openBridgeStream opens a stream of type t on this connection. The error is errNothingSent if
// another connection may be tried.
func (c *conn) openBridgeStream(ctx context.Context, t wire.StreamType) (*Stream, *kinds.Error) {
	if !slices.Contains(c.peerHello.Features, features[t]) {
		return nil, kinds.Errorf(kinds.UnknownKind, "%s does not offer %q; update it, or switch it on there", c.node.peerName(c.id), features[t]).WithDelivered(kinds.DeliveredNo)
	}
	if !c.tryAddOwnStream() {
		return nil, errNothingSent
	}
	qs, err := c.qc.OpenStream()
	if err != nil {
		c.removeOwnStream()
		return nil, c.toOpenStreamError(err)
	}
	stop := context.AfterFunc(ctx, func() { resetStream(qs, streamCancelled) })
	s := &Stream{s: qs, connLeaving: c.leavingBegan, path: c.endpoint.path, done: func() {
		stop()
		c.removeOwnStream()
	}}
	if _, err := qs.Write([]byte{byte(t)}); err != nil {
		s.Cancel()
		return nil, c.node.toCallError(ctx, c, err)
	}
	return s, nil
}

func (s *Stream) Read(p []byte) (int, error)  { return s.s.Read(p) }
func (s *Stream) Write(p []byte) (int, error) { return s.s.Write(p) }

// Leaving returns a channel that is closed when the stream's connection takes no more
// streams, because the peer shuts down or another connection has replaced it. A caller
// that keeps a stream open for long then ends it and opens another: the connection lasts
// as long as its streams.
func (s *Stream) Leaving() <-chan struct{} { return s.connLeaving }

// Path returns the path that the stream takes.
func (s *Stream) Path() Path { return s.path }

// CloseWrite ends the writing half (FIN); the peer reads io.EOF.
func (s *Stream) CloseWrite() error { return s.s.Close() }

// CloseRead ends the reading half; what still comes is dropped. A handler that has read
// all of a request calls it, so that nothing lies unread while the answer takes its time.
func (s *Stream) CloseRead() { s.s.CancelRead(streamNone) }

// SetReadDeadline bounds Reads, as net.Conn's does.
func (s *Stream) SetReadDeadline(t time.Time) error { return s.s.SetReadDeadline(t) }

// SetWriteDeadline bounds Writes, as net.Conn's does.
func (s *Stream) SetWriteDeadline(t time.Time) error { return s.s.SetWriteDeadline(t) }

// Close ends both halves: what was written arrives, what was not read is
// refused. After Close or Cancel both do nothing.
func (s *Stream) Close() error {
	if s.ended.Swap(true) {
		return nil
	}
	err := s.s.Close()
	s.s.CancelRead(streamNone)
	s.done()
	return err
}

// Cancel gives the stream up: the peer sees it reset. After Close or Cancel both
// do nothing.
func (s *Stream) Cancel() {
	if s.ended.Swap(true) {
		return
	}
	resetStream(s.s, streamCancelled)
	s.done()
}
