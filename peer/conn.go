package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// conn is one QUIC connection to a peer whose key is proven. It is ready when the
// peer's hello is in and accepted (protocol, section 2).
type conn struct {
	node   *Node
	peer *peerState
	qc     *quic.Conn
	id     identity.ID

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
	inbound       map[quic.StreamID]*inboundStream              // exchanges of the peer
	leaveCode    quic.ApplicationErrorCode
	told         bool // goaway was received
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
		peer:   n.stateOf(id),
		qc:       qc,
		id:       id,
		ready:    make(chan struct{}),
		ended:    make(chan struct{}),
		left:     make(chan struct{}),
		control:  newControlWriter(),
		receipts: make(map[quic.StreamID]chan<- *wire.Receipt),
		inbound:   make(map[quic.StreamID]*inboundStream),
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

// refusedError is a hello that is not accepted, and what to tell of it.
type refusedError struct {
	code   quic.ApplicationErrorCode
	reason string
	event  EventType // "": nothing
}

// run lives as long as the connection: greet, become ready, serve.
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

// refuseHello closes a connection whose hello is not accepted. A stranger is pending before
// the connection closes, unless its key is blocked or was trusted meanwhile.
func (c *conn) refuseHello(r *refusedError) {
	who := c.id
	if c.peer == nil {
		who = budget.Strangers
	}
	c.node.lines.Add(who, slog.LevelInfo, "peer refused", "peer", c.id.Label(), "addr", c.addr(), "reason", r.reason)
	switch r.event {
	case EventIdentityConflict:
		c.node.lines.Tell(who, func(left uint64) {
			c.node.emitEvent(Event{Type: r.event, Peer: c.id, Name: c.claim, Addr: c.addr(), Detail: r.reason + alike(left)})
		})
	case EventPending:
		p := Pending{ID: c.id, Claim: c.claim, Addr: c.addr(), PQ: c.pq, At: time.Now()}
		if c.node.isUndecided(c.id) && c.node.pending.add(p, c.qc.RemoteAddr()) {
			c.node.lines.Tell(who, func(left uint64) {
				c.node.emitEvent(Event{Type: r.event, Peer: c.id, Name: c.claim, Addr: c.addr(), Detail: strings.TrimPrefix(alike(left), "; ")})
			})
		}
	}
	c.close(r.code, r.reason)
}

// alike says how many events like one that is told were left out before it.
func alike(left uint64) string {
	if left < 2 {
		return ""
	}
	return fmt.Sprintf("; %d more like it in the last minute", left-1)
}

// checkPQ compares the post-quantum half in hello with what was pinned
// (protocol, section 7).
func (c *conn) checkPQ(p identity.Peer) *refusedError {
	switch {
	case c.pq.IsZero() && c.node.cfg.RequirePQ:
		return &refusedError{closeNotTrusted, "a post-quantum identity is required here", EventIdentityConflict}
	case p.PQ.IsZero() || p.PQ == c.pq:
		return nil
	case c.pq.IsZero():
		return &refusedError{closeNotTrusted, "the post-quantum half of the identity is missing", EventIdentityConflict}
	}
	return &refusedError{closeNotTrusted, "the post-quantum half of the identity is another one", EventIdentityConflict}
}

// pinPQ remembers the post-quantum half of a peer that was accepted. Of two
// connections at once that show different ones, the first pins.
func (c *conn) pinPQ() *refusedError {
	if p, _ := c.node.cfg.Trust.Get(c.id); !p.PQ.IsZero() || c.pq.IsZero() {
		return c.checkPQ(p)
	}
	if err := c.node.cfg.Trust.Pin(c.id, c.pq); err != nil {
		c.node.lines.Add(c.id, slog.LevelError, "pin the post-quantum key", "peer", c.id.Label(), "err", err)
	}
	p, _ := c.node.cfg.Trust.Get(c.id)
	return c.checkPQ(p)
}

// beginStream counts a stream that we are about to open; it fails when the connection
// takes no more. The caller then calls finish.
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

// sendGoaway stops opening streams here and asks the peer to; what is open goes on.
// Callers are goroutines of the node or wait for them.
func (c *conn) sendGoaway(code quic.ApplicationErrorCode) {
	if !c.stopOpening(code) {
		return
	}
	// A dead connection's window may be full: whoever drains several, or has
	// replaced this one, does not wait for it.
	c.node.tasks.Go(func() {
		c.control.sendItem(&wire.Goaway{Code: uint64(code)})
		c.advanceDrain()
	})
}

// stopOpening reports whether it was the first to do so.
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

// advanceDrain tells the peer when every stream that we opened has its answer. Once
// both sides have said so nothing can be in flight, and the connection closes:
// after a pause, so that a lost done is repeated, since a lost close is not; at
// once where the peer is shutting down and waits for it.
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

// resetInbound gives up what the peer still waits for.
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
