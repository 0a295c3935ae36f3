package peer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// conn is one QUIC connection to a peer whose key is proven. It is ready when the
// peer's hello is in and accepted (protocol, section 2).
type conn struct {
	node *Node
	peer *peerState
	qc   *quic.Conn
	id   identity.ID

	ready chan struct{} // closed when ready
	ended chan struct{} // closed when the connection has ended

	hello *wire.Hello     // the peer's; set before ready is closed
	pq    identity.PQHash // of its post-quantum half, proven; zero: it showed none
	claim string          // its name, made showable

	control controlWriter
	outbox  outbox
	credit  creditBatcher
	heard   atomic.Int64  // nanoseconds from node.epoch to the last word
	leaving atomic.Bool   // no new streams: goaway was sent or received
	left    chan struct{} // closed when leaving is set

	mu           sync.Mutex                             // guards what follows
	open         int                                    // streams of ours without reply or receipt
	receipts     map[quic.StreamID]chan<- *wire.Receipt // nil channel: nobody waits
	inbound      map[quic.StreamID]*inboundStream       // exchanges of the peer
	leaveCode    quic.ApplicationErrorCode
	told         bool // a goaway was received
	doneSent     bool
	doneReceived bool
	linger       *time.Timer // closes the connection a moment after both; nil: not yet
	live         liveness

	received uint64 // bytes, when unread frames were counted last; the watch's alone
	frames   int    // that lay unread then
}

const (
	helloTime  = 5 * time.Second
	lingerTime = time.Second
)

func newConn(n *Node, qc *quic.Conn, id identity.ID) *conn {
	c := &conn{
		node:     n,
		peer:     n.stateOf(id),
		qc:       qc,
		id:       id,
		ready:    make(chan struct{}),
		ended:    make(chan struct{}),
		left:     make(chan struct{}),
		control:  newControlWriter(),
		receipts: make(map[quic.StreamID]chan<- *wire.Receipt),
		inbound:  make(map[quic.StreamID]*inboundStream),
	}
	c.noteHeard()
	return c
}

func (c *conn) noteHeard() { c.heard.Store(int64(time.Since(c.node.epoch))) }

func (c *conn) silentFor(d time.Duration) bool {
	return time.Since(c.node.epoch)-time.Duration(c.heard.Load()) >= d
}

func (c *conn) addr() string { return c.qc.RemoteAddr().String() }

func (c *conn) describe() Peer {
	return Peer{
		ID:       c.id,
		Addr:     c.addr(),
		RTT:      c.qc.ConnectionStats().SmoothedRTT,
		Claim:    c.claim,
		Boot:     c.hello.Boot,
		Features: c.hello.Features,
	}
}

// close ends the connection at once; what is open fails on both sides.
func (c *conn) close(code quic.ApplicationErrorCode, reason string) {
	c.stopOpening(code)
	c.qc.CloseWithError(code, reason)
}

func (c *conn) endCause() error {
	return context.Cause(c.qc.Context())
}

// run exchanges hellos, makes the connection ready and serves it. It returns when the
// connection has ended.
func (c *conn) run() {
	defer close(c.ended)
	c.peer.beginGreeting(c)
	c.node.tasks.Go(func() { limitGreetingBytes(c.qc, c.ready, closeOverloaded, "a hello takes less") })
	items, err := c.exchangeHellos(helloTime, true)
	c.peer.endGreeting(c)
	if err != nil {
		code := closeProtocolError
		if errors.Is(err, context.DeadlineExceeded) {
			code = closeHelloTimeout
		}
		c.close(code, err.Error())
		return
	}
	if r := c.peer.admit(c); r != nil {
		c.refuseHello(r)
		return
	}
	c.node.lines.Add(c.id, slog.LevelInfo, "peer connected", "peer", c.id.Label(), "addr", c.addr(), "claim", c.claim)
	var loops sync.WaitGroup
	if r := c.pinPQ(); r != nil {
		c.refuseHello(r)
	} else {
		loops.Go(c.acceptBidiStreams)
		loops.Go(c.acceptUniStreams)
	}
	if err := c.readControl(items); err != nil {
		c.close(closeProtocolError, err.Error())
	}
	<-c.qc.Context().Done()
	c.live.stopTimer(c)
	c.peer.removeConn(c)
	loops.Wait()
	c.node.lines.Add(c.id, slog.LevelInfo, "peer disconnected", "peer", c.id.Label(), "cause", c.endCause())
}

// beginStream counts a stream that this node is about to open; the caller calls
// finishStream in the end. The error is errGoingAway if the connection takes no more.
func (c *conn) beginStream() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving.Load() {
		return errGoingAway
	}
	c.open++
	c.live.startTimer(c)
	return nil
}

// finishStream counts a stream whose reply or receipt is in, or that was given up.
func (c *conn) finishStream() {
	c.mu.Lock()
	c.open--
	c.mu.Unlock()
	if c.leaving.Load() {
		c.advanceDrain()
	}
}

// sendGoaway stops opening streams and asks the peer to do so; open streams go on. It
// does not block. The caller is a goroutine of the node, or waits for one.
func (c *conn) sendGoaway(code quic.ApplicationErrorCode) {
	if !c.stopOpening(code) {
		return
	}
	// A dead connection's window may be full: a caller that drains several connections,
	// or has replaced this one, does not wait for it.
	c.node.tasks.Go(func() {
		c.control.sendItem(&wire.Goaway{Code: uint64(code)})
		c.advanceDrain()
	})
}

// stopOpening lets no more streams begin, and reports whether that is new.
func (c *conn) stopOpening(code quic.ApplicationErrorCode) bool {
	c.mu.Lock()
	first := !c.leaving.Load()
	if first {
		c.leaving.Store(true)
		c.leaveCode = code
	}
	c.mu.Unlock()
	if first && c.peer != nil {
		close(c.left)
		c.peer.updateCurrent()
	}
	return first
}

// advanceDrain sends done when every stream that this node opened has its answer. Once
// both sides have sent it nothing can be in flight, and the connection closes. It closes
// after a pause, because a lost done is repeated and a lost close is not; at once if the
// peer is shutting down and waits for it.
func (c *conn) advanceDrain() {
	c.mu.Lock()
	say := c.open == 0 && !c.doneSent && c.leaving.Load()
	if say {
		c.doneSent = true
	}
	over := c.doneSent && c.doneReceived
	atOnce := over && c.told && c.leaveCode == closeShutdown
	linger := over && !atOnce && c.linger == nil
	code := c.leaveCode
	if linger {
		c.linger = time.AfterFunc(lingerTime, func() { c.close(code, "drained") })
	}
	c.mu.Unlock()
	if say {
		c.node.startHandler(func() { c.control.sendItem(&wire.Done{}) }) // a call that ends does not wait for the peer to read
	}
	if atOnce {
		c.close(code, "drained")
	}
}

// resetInbound resets the streams on which the peer still waits for an answer.
func (c *conn) resetInbound() {
	c.mu.Lock()
	all := make([]*inboundStream, 0, len(c.inbound))
	for _, s := range c.inbound {
		all = append(all, s)
	}
	c.mu.Unlock()
	for _, s := range all {
		code := streamInternal
		if s.markBegun() {
			code = streamGoingAway // and now none will run
		}
		s.stream.CancelRead(code)
		s.stream.CancelWrite(code)
	}
}
