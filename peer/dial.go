package peer

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

const (
	maxDialIPs    = 8                      // of one host name
	refusalPause  = 100 * time.Millisecond // before a peer that did not trust this node is dialled again
	shareVerdict  = time.Second            // for so long calls share why a dial failed
	refusedMemory = 100 * time.Millisecond // the same, if the host refused the port
	cloneWait     = 30 * time.Second       // the same, if the peer saw a clone of this identity
)

// dial is one attempt at a peer's addresses, on which all calls to that peer wait.
type dial struct {
	began    time.Time // a call that is younger does not take err for its own
	cancel   context.CancelFunc
	finished chan struct{} // closed when a connection is ready or all have failed
	err      *kinds.Error  // set before finished is closed
}

// dialFailure says why there is no connection, and for how long calls share that.
type dialFailure struct {
	*kinds.Error
	memory  time.Duration
	refused bool // by the peer itself, which proved its key: it does not trust us
}

// ensureReadyConn returns a connection that answers: the one in use, proven alive if it has
// been silent, or a new one. It blocks for dialTime at most. The error is of a call of
// which nothing was sent.
func (s *peerState) ensureReadyConn(ctx context.Context) (*conn, *kinds.Error) {
	if c := s.current.Load(); c != nil && !c.isSilentFor(silentAfter) {
		return c, nil
	}
	limited, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	for began := time.Now(); ; {
		if c := s.current.Load(); c != nil && c.proveAlive(limited) {
			return c, nil
		}
		if limited.Err() != nil {
			return nil, s.newGaveUpError(ctx)
		}
		d, err := s.joinOrStartDial(began)
		if err != nil {
			return nil, err
		}
		if d == nil {
			continue // a connection became ready meanwhile
		}
		select {
		case <-d.finished:
			// If a dial failed that began before the call, that says little: its last packet
			// may have left before the network came back, or before the peer trusted this node.
			if err := s.dialErrorSince(d, began); err != nil {
				return nil, err
			}
		case <-limited.Done():
			return nil, s.newGaveUpError(ctx)
		}
	}
}

// dialErrorSince returns why a dial that is over failed, or nil if it began before then.
func (s *peerState) dialErrorSince(d *dial, then time.Time) *kinds.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.began.Before(then) {
		return nil
	}
	return d.err
}

// newGaveUpError says why ensureReadyConn gave up: the caller's ctx ended, or dialTime passed.
func (s *peerState) newGaveUpError(ctx context.Context) *kinds.Error {
	if ctx.Err() != nil {
		return newContextError(s.node, ctx, s.id, kinds.DeliveredNo)
	}
	return s.node.newUnreachableError(s.id, kinds.DeliveredNo, "no answer; check that its daemon runs and the network between")
}

// joinOrStartDial returns the running dial, or starts one. If the last dial failed shortly
// before the call began, it returns that error instead. A peer's refusal is not shared,
// because the peer says nothing when it takes it back; but the next dial waits a little,
// so that a caller in a loop does not dial in one. Both nil: a connection is ready.
func (s *peerState) joinOrStartDial(began time.Time) (*dial, *kinds.Error) {
	if _, ok := s.node.cfg.Trust.Get(s.id); !ok {
		return nil, s.node.newUnknownPeerError(s.id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Load() != nil {
		return nil, nil
	}
	if s.dial != nil {
		return s.dial, nil
	}
	var pause time.Duration
	if v := s.verdict; v != nil {
		switch age := time.Since(s.verdictAt); {
		case v.Code == kinds.NotTrusted:
			pause = refusalPause - age
		case age < v.memory && (v.Code != kinds.Unreachable || !s.verdictAt.After(began)):
			return nil, v.Error
		}
	}
	ctx, cancel := context.WithTimeout(s.node.ctx, dialTime)
	d := &dial{cancel: cancel, finished: make(chan struct{})}
	if !s.node.startTask(func() { s.runDial(ctx, d, pause) }) {
		cancel()
		return nil, s.node.newUnreachableError(s.id, kinds.DeliveredNo, "this daemon is shutting down")
	}
	s.dial = d
	return d, nil
}

// finishDial ends the running dial, if there is one, with a verdict; nil: a connection is
// ready, whichever side dialled. Callers hold mu, and call emitQueuedEvents after it.
func (s *peerState) finishDial(verdict *dialFailure) {
	s.verdict, s.verdictAt = verdict, time.Now()
	switch {
	case verdict == nil:
		s.lastFailure = nil
	case verdict.refused:
		s.queueEvent(Event{Type: EventRefused})
	}
	if s.dial == nil {
		return
	}
	if verdict != nil {
		s.dial.err = verdict.Error
	}
	close(s.dial.finished)
	s.dial.cancel()
	s.dial = nil
}

// runDial races the addresses, after a pause, and finishes the dial.
func (s *peerState) runDial(ctx context.Context, d *dial, pause time.Duration) {
	_ = pace.Sleep(ctx, pause)
	s.mu.Lock()
	d.began = time.Now()
	s.mu.Unlock()
	addrs := s.listDialAddrs()
	var verdict *dialFailure
	if len(addrs) > 0 {
		verdict = s.node.raceAddrs(ctx, s.id, addrs, s.dialAddr)
	}
	s.mu.Lock()
	switch {
	case s.dial != d: // a connection has finished it, or Disconnect
	case verdict != nil:
		s.lastFailure = verdict.Error
	case s.lastFailure != nil: // there were addresses a moment ago, and they are not to be tried again yet
		verdict = &dialFailure{Error: s.lastFailure, memory: shareVerdict}
	default:
		verdict = &dialFailure{Error: s.node.newUnreachableError(s.id, kinds.DeliveredNo, "there is no address to try; start its daemon, or give one with acpctl trust --addr HOST:PORT"), memory: shareVerdict}
	}
	if s.dial == d {
		s.finishDial(verdict)
	}
	s.mu.Unlock()
	s.emitQueuedEvents()
}

// dialAddr dials one address and blocks until that connection is ready or has failed, or
// ctx ends because another was quicker. That one, whose hello is out, is left to itself.
func (s *peerState) dialAddr(ctx context.Context, addr string, udp *net.UDPAddr) *dialFailure {
	qc, err := s.node.dialHandshake(ctx, s.id, identity.ALPN, udp)
	if err != nil {
		return s.node.toDialFailure(s.id, addr, err)
	}
	c := newConn(s.node, qc, s.id)
	if !s.node.startTask(func() { defer s.node.closeConnWithNode(qc)(); c.run() }) {
		qc.CloseWithError(closeShutdown, "shutting down")
		return s.node.toDialFailure(s.id, addr, quic.ErrTransportClosed)
	}
	select {
	case <-c.ready:
		return nil
	case <-c.ended:
		f := s.node.toDialFailure(s.id, addr, c.endCause())
		if f.refused { // it is there, whoever named the address
			s.mu.Lock()
			s.lastGoodAddr = c.remoteAddr()
			s.mu.Unlock()
		}
		return f
	case <-ctx.Done():
		return s.node.toDialFailure(s.id, addr, ctx.Err())
	}
}

// toDialFailure returns the failure that an error of a dial means, with how long calls
// share it: longest if the peer saw a clone of this identity.
func (n *Node) toDialFailure(id identity.ID, addr string, err error) *dialFailure {
	f := &dialFailure{Error: n.toDialError(id, addr, err), memory: shareVerdict, refused: isClosedWith(err, closeNotTrusted)}
	switch {
	case errors.Is(err, errNoRoute):
		f.memory = 0 // this host knows by itself, at once, and first of all when that has changed
	case errors.Is(err, errRefused):
		f.memory = refusedMemory // the answer is quick to have again, and may change as quickly
	case isClosedWith(err, closeIdentityConflict):
		f.memory = cloneWait
	}
	return f
}

// dialHandshake dials one address and checks that the key there is id. Meanwhile it asks the
// host whether anything listens at that port.
func (n *Node) dialHandshake(ctx context.Context, id identity.ID, alpn string, addr *net.UDPAddr) (*quic.Conn, error) {
	conf, err := n.cfg.Key.ClientTLS(id, n.cfg.RequirePQ, alpn)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var probing sync.WaitGroup
	var found probeResult
	if n.probe != nil {
		probing.Go(func() {
			if found = n.probe(ctx, addr); found == probeRefused || found == probeNoRoute {
				cancel()
			}
		})
	}
	qc, err := n.transport.Dial(ctx, addr, conf, n.config)
	cancel()
	probing.Wait()
	switch {
	case err != nil && found == probeRefused:
		return nil, errRefused
	case err != nil && found == probeNoRoute:
		return nil, errNoRoute
	}
	return qc, err
}
