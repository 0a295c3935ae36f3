package peer

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// conn is one QUIC connection to a peer whose key is proven. It is ready when the
// peer's hello is in and accepted (protocol, section 2).
//
// A stranger's connection, which is refused after its hello, is a conn with only node, endpoint,
// qc, id and what its hello says.
type conn struct {
	node     *Node
	endpoint *endpoint  // of the link that carries it
	peer     *peerState // nil: a stranger's
	qc       *quic.Conn
	id       identity.ID

	ready       chan struct{} // closed when ready
	runReturned chan struct{} // closed when run returns; what ends with the connection itself is qc's context

	peerHello *wire.Hello     // the peer's hello; nil until exchangeHellos has accepted it, which is before the connection is ready
	peerPQ    identity.PQHash // of the peer's post-quantum key, proven; zero: it showed none
	noRoom    bool            // the certificate in its hello is valid, but for identity.ErrCertifiedFull
	claim     string          // the name that the peer says of itself, by CleanClaim

	uses       atomic.Uint64 // streams that have begun, of either side
	endsUnused bool          // the connection ends when it has long been without any

	nobody    atomic.Bool // the link has said that nobody is at the peer's address, and a proof of that runs
	control   controlWriter
	outbox    outbox
	credit    creditBatcher
	lastHeard atomic.Int64 // when the peer was last heard, in nanoseconds since node.epoch

	// A connection is leaving when it takes no new streams: goaway was sent or received, close
	// was called, or the last try to open a stream failed. The flag is set under mu, so that no
	// stream is counted after it. The channel, closed soon after, is for those who wait for it.
	leaving      atomic.Bool
	leavingBegan chan struct{} // nil on a stranger's connection

	renewal renewal // of this node's certificate
	dialled bool    // by this node

	mu             sync.Mutex                             // guards what follows, down to live
	ownOpenStreams int                                    // streams that this node opened and has not finished
	receipts       map[quic.StreamID]chan<- *wire.Receipt // by stream; a nil channel where nobody waits
	inbound        map[quic.StreamID]*inboundStream       // bidirectional streams of the peer, not answered yet
	unheard        map[*unheardCall]struct{}              // calls on a relay that have not ended
	leavingCode    quic.ApplicationErrorCode              // with which leaving was set
	goawayReceived bool
	doneSent       bool
	doneReceived   bool
	lingerTimer    *time.Timer // closes the connection lingerDelay after both dones; nil: not started
	live           liveness

	// Used only by the reader of control items:
	renewals      int // since renewalsSince
	renewalsSince time.Time

	// Used only by watchCertificates:
	usesSeen    uint64 // at the last look
	unusedSince time.Time

	// Used only by the unread watch:
	bytesAtCount uint64 // received when unread frames were last counted
	unreadFrames int    // when bytesAtCount was set
}

const (
	helloTimeout = 5 * time.Second
	lingerDelay  = time.Second
)

func newConn(e *endpoint, qc *quic.Conn, id identity.ID) *conn {
	c := &conn{
		node:         e.node,
		endpoint:     e,
		peer:         e.node.findOrCreateState(id),
		qc:           qc,
		id:           id,
		ready:        make(chan struct{}),
		runReturned:  make(chan struct{}),
		leavingBegan: make(chan struct{}),
		control:      newControlWriter(),
		receipts:     make(map[quic.StreamID]chan<- *wire.Receipt),
		inbound:      make(map[quic.StreamID]*inboundStream),
		unheard:      make(map[*unheardCall]struct{}),
	}
	c.markHeard()
	return c
}

func (c *conn) markHeard() { c.lastHeard.Store(int64(time.Since(c.node.epoch))) }

func (c *conn) isSilentFor(d time.Duration) bool {
	return time.Since(c.node.epoch)-time.Duration(c.lastHeard.Load()) >= d
}

func (c *conn) remoteAddr() string { return c.qc.RemoteAddr().String() }

// describePeer describes the peer by this connection. It must not be called before peerHello is
// set.
func (c *conn) describePeer() Peer {
	return Peer{
		ID:       c.id,
		Addr:     c.remoteAddr(),
		Path:     c.endpoint.path,
		RTT:      c.qc.ConnectionStats().SmoothedRTT,
		Claim:    c.claim,
		Software: c.peerHello.Software,
		Boot:     c.peerHello.Boot,
		Features: c.peerHello.Features,
	}
}

// close ends the connection at once; streams that are open fail on both sides.
func (c *conn) close(code quic.ApplicationErrorCode, reason string) {
	c.markLeaving(code)
	c.qc.CloseWithError(code, reason)
}

// closeFailedGreeting closes a connection on which the exchange of hellos failed with err, and tells the
// peer why. A timeout has a code of its own.
func (c *conn) closeFailedGreeting(err error) {
	code := closeProtocolError
	if errors.Is(err, context.DeadlineExceeded) {
		code = closeHelloTimeout
	}
	c.close(code, describeCause(err))
}

// endCause returns why the connection ended; nil while it is open.
func (c *conn) endCause() error { return context.Cause(c.qc.Context()) }

// run makes the connection ready, and serves it. heard is for greet. It returns when the
// connection has ended and its loops have returned. Its goroutine lasts as long as the connection, so
// what takes much stack is done in greet.
func (c *conn) run(heard *bufio.Reader) {
	defer close(c.runReturned)
	if c.endpoint.path == ViaPipe {
		defer c.endpoint.notices.onNobodyAt(c.qc.RemoteAddr(), c.hearPipeEnd)()
	}
	greeted := make(chan *bufio.Reader)
	c.node.tasks.Go(func() { greeted <- c.greet(heard) })
	controlReader := <-greeted
	if controlReader == nil {
		return
	}
	if c.endpoint.path != ViaPipe {
		defer c.endpoint.notices.onNobodyAt(c.qc.RemoteAddr(), c.hearNobody)()
	}
	var loops sync.WaitGroup
	loops.Go(c.acceptBidiStreams)
	loops.Go(c.acceptUniStreams)
	if c.endsUnused {
		loops.Go(c.endUnused)
	}
	if c.canUpgrade() {
		loops.Go(c.upgradePath)
	}
	c.startRenewal() // if it has changed since hello
	if err := c.readControlItems(controlReader); err != nil {
		c.close(closeProtocolError, describeCause(err))
	}
	<-c.qc.Context().Done()
	c.leave()
	loops.Wait()
}

// greet exchanges hellos and makes the connection ready, for run. If the peer's hello has been read
// already, as that of a stranger has to be, controlReader is the rest of the peer's control stream. greet
// returns that, or nil if the connection is closed and did not become ready. It runs in a goroutine of its
// own, because a stack that has grown is not given back, or late, before its goroutine ends.
func (c *conn) greet(controlReader *bufio.Reader) *bufio.Reader {
	c.peer.addGreeting(c)
	c.node.tasks.Go(func() { limitGreetingBytes(c.qc, c.ready, closeOverloaded, "more bytes than a hello takes") }) // then the unread watch does
	heard := controlReader != nil
	var err error
	if heard {
		err = c.sendHello()
	} else {
		controlReader, err = c.exchangeHellos(helloTimeout, true)
	}
	c.peer.removeGreeting(c)
	if err != nil {
		c.closeFailedGreeting(err)
		return nil
	}
	if !heard {
		c.certifyHello()
	}
	return c.becomeReady(controlReader)
}

// becomeReady makes a connection ready on which both hellos are through. It returns controlReader, or
// nil if the connection is closed and did not become ready.
func (c *conn) becomeReady(controlReader *bufio.Reader) *bufio.Reader {
	if refusal := c.peer.admitConn(c); refusal != nil {
		c.refuseHello(refusal)
		return nil
	}
	c.node.peerLog.WriteLimited(c.id, slog.LevelInfo, "peer connected", "peer", c.id.Label(), "addr", c.remoteAddr(), "claim", c.claim)
	if refusal := c.pinPQ(); refusal != nil {
		c.refuseHello(refusal) // it was admitted, so run continues, and removes it from conns
	}
	return controlReader
}

// leave takes the connection, which has ended, from those of its peer.
func (c *conn) leave() {
	c.live.stopTimer(c)
	c.peer.removeConn(c)
	c.node.peerLog.WriteLimited(c.id, slog.LevelInfo, "peer disconnected", "peer", c.id.Label(), "reason", describeCause(c.endCause()))
}

// startConn runs c in a goroutine of the node and reports whether it did; heard is for greet. It
// closes c when the node is closed, or is closing already.
func (n *Node) startConn(c *conn, heard *bufio.Reader) bool {
	stop := n.closeConnWithNode(c.qc)
	if n.startTask(func() { c.run(heard); stop() }) {
		return true
	}
	stop()
	c.qc.CloseWithError(closeShutdown, "shutting down")
	return false
}

// tryAddOwnStream adds a stream to the open ones before this node opens it, and reports true. The
// caller then calls removeOwnStream once. It reports false if the connection is leaving.
func (c *conn) tryAddOwnStream() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving.Load() {
		return false
	}
	c.ownOpenStreams++
	c.uses.Add(1)
	c.live.startTimer(c)
	return true
}

// removeOwnStream removes a stream from the open ones, after its answer or when it was given up. If
// the connection is leaving, it calls advanceDrain.
func (c *conn) removeOwnStream() {
	c.mu.Lock()
	c.ownOpenStreams--
	c.mu.Unlock()
	if c.leaving.Load() {
		c.advanceDrain()
	}
}

// sendGoaway makes the connection leave, and asks the peer to open no streams on it either;
// open streams go on. If it is leaving already, because of the peer's goaway or an earlier call,
// sendGoaway sends nothing. It does not block. A goroutine of the node must be running until it
// returns: Add on node.tasks may not race with Wait.
func (c *conn) sendGoaway(code quic.ApplicationErrorCode) {
	if !c.markLeaving(code) {
		return
	}
	// Sent from another goroutine, because a dead connection's full window would block
	// the caller.
	c.node.tasks.Go(func() {
		c.control.sendItem(&wire.Goaway{Code: uint64(code)})
		c.advanceDrain()
	})
}

// markLeaving makes tryAddOwnStream report false from now on. It reports whether this was the
// first call; the code of the first stays.
func (c *conn) markLeaving(code quic.ApplicationErrorCode) bool {
	c.mu.Lock()
	first := !c.leaving.Load()
	if first {
		c.leaving.Store(true)
		c.leavingCode = code
	}
	c.mu.Unlock()
	if first && c.peer != nil {
		close(c.leavingBegan)
		c.peer.reselectCurrentConn()
	}
	return first
}

// peerShutsDown reports whether the peer has begun the end of the connection because it is shutting down.
func (c *conn) peerShutsDown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.goawayReceived && c.leavingCode == closeShutdown
}

// advanceDrain takes the next step of a drain, if one is due. Call it when a stream of this node
// has ended, and when the state of the drain has changed.
//
// The first step is to send done, once no stream of this node is open. The second one follows
// when both sides have sent done, since then nothing can be in flight: it closes the connection.
// That waits for lingerDelay, because a done that is lost is sent again, and a close is not. In
// a shutdown it does not wait if the peer has sent goaway too.
func (c *conn) advanceDrain() {
	c.mu.Lock()
	sendDone := c.ownOpenStreams == 0 && !c.doneSent && c.leaving.Load()
	if sendDone {
		c.doneSent = true
	}
	drained := c.doneSent && c.doneReceived
	atOnce := drained && c.goawayReceived && c.leavingCode == closeShutdown
	startLinger := drained && !atOnce && c.lingerTimer == nil
	code := c.leavingCode
	if startLinger {
		c.lingerTimer = time.AfterFunc(lingerDelay, func() { c.close(code, "drained") })
	}
	c.mu.Unlock()
	if sendDone {
		// Not here: it would make the finished call wait until the peer reads.
		c.node.startOnWorker(func() { c.control.sendItem(&wire.Done{}) })
	}
	if atOnce {
		c.close(code, "drained")
	}
}

// resetInboundStreams resets the streams on which the peer still waits for an answer.
func (c *conn) resetInboundStreams() {
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.inbound))
	c.mu.Unlock()
	for _, inbound := range all {
		code := streamInternal
		if inbound.tryDecide() {
			code = streamGoingAway // its handler never runs: the peer may send it again safely
		}
		resetStream(inbound.stream, code)
	}
}
