package peer

import (
	"context"
	"errors"
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
	shareVerdict  = time.Second            // for how long other calls get the error of a failed dial instead of dialling
	refusedMemory = 100 * time.Millisecond // the same, where the host refused the port
	cloneWait     = 30 * time.Second       // the same, where the peer saw a clone of this identity
)

// dial is one attempt at a peer's addresses, on which all calls to that peer wait.
type dial struct {
	began    time.Time // a call that is younger does not take err for its own
	cancel   context.CancelFunc
	finished chan struct{} // closed when a connection is ready or all have failed
	err      *kinds.Error  // set before finished is closed
	partial  bool          // it leaves out the peer's pipe, as it is of the background
}

// dialFailure is the reason why there is no connection, and for how long calls share it.
type dialFailure struct {
	*kinds.Error
	memory   time.Duration
	refused  bool    // by the peer itself, which proved its key: it does not trust us
	isOfPipe bool    // of a leg that a command opens
	addr     string  // of the leg, for people
	isSilent bool    // it says nothing of the peer: silence says all
	silence  silence // of all addresses of the race
}

// ensureReadyConn returns a connection that answers: the one in use, proven alive if it has
// been silent, or a new one. It blocks for dialTime at most, for pipeDialTime if the peer has a
// pipe. If it returns an error, nothing of the call was sent.
func (state *peerState) ensureReadyConn(ctx context.Context) (*conn, *kinds.Error) {
	if c := state.current.Load(); c != nil && !c.isDoubtful() {
		return c, nil
	}
	return state.ensureProvenConn(ctx, false)
}

// ensureProvenConn is ensureReadyConn where there is no connection that has been heard lately. In
// the background no command is started.
func (state *peerState) ensureProvenConn(ctx context.Context, background bool) (*conn, *kinds.Error) {
	limited, cancel := context.WithTimeout(ctx, state.dialLimit(background))
	defer cancel()
	var silent *conn
	for began := time.Now(); ; {
		if c := state.current.Load(); c != nil {
			if c.proveAlive(limited) {
				return c, nil
			}
			silent = c
		}
		if limited.Err() != nil {
			return nil, state.newGaveUpError(ctx, silent)
		}
		d, err := state.joinOrStartDial(began, background)
		if err != nil {
			return nil, state.recallRefusal(err, background)
		}
		if d == nil {
			continue // a connection became ready meanwhile
		}
		select {
		case <-d.finished:
			// If a dial failed that began before the call, that says little: its last packet
			// may have left before the network came back, or before the peer trusted this node.
			if err := state.dialErrorSince(d, began, background); err != nil {
				return nil, state.recallRefusal(err, background)
			}
		case <-limited.Done():
			return nil, state.newGaveUpError(ctx, silent)
		}
	}
}

// dialLimit returns how long a dial takes at most.
func (state *peerState) dialLimit(background bool) time.Duration {
	if background {
		return dialTime
	}
	return state.node.dialLimit(state.id)
}

// dialErrorSince returns why a dial that is over failed, or nil if it began before then or, for a
// call, left out what the background does not dial.
func (state *peerState) dialErrorSince(d *dial, then time.Time, background bool) *kinds.Error {
	state.mu.Lock()
	defer state.mu.Unlock()
	if d.began.Before(then) || d.partial && !background {
		return nil
	}
	return d.err
}

// newGaveUpError says why ensureReadyConn gave up: the caller's ctx ended, or dialTime passed. Of a deadline that
// ended while a pipe was being opened, it says that. Of dialTime, it says what a dial has found that ended meanwhile,
// or where the connection was that did not answer, if any.
func (state *peerState) newGaveUpError(ctx context.Context, silent *conn) *kinds.Error {
	if ctx.Err() != nil {
		if opening := state.node.findOpening(state.id); opening != "" && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return state.node.newUnreachableError(state.id, kinds.DeliveredNo, "the command of %s has printed nothing yet: it logs in, or hangs; try again in some seconds, or run it by hand to see", opening)
		}
		return newContextError(state.node, ctx, state.id, kinds.DeliveredNo)
	}
	state.mu.Lock()
	last, age := state.lastDialFailure, time.Since(state.lastDialFailedAt)
	state.mu.Unlock()
	switch {
	case last != nil && last.Code == kinds.Unreachable && age < dialTime:
		return last
	case silent != nil:
		return state.node.newSilenceError(state.id, silent.endpoint.noteSilence(shortAddr(silent.remoteAddr())))
	}
	return state.node.newUnreachableError(state.id, kinds.DeliveredNo, "no answer; check that its daemon runs and the network between")
}

// joinOrStartDial returns the running dial, or starts one. If the last dial failed shortly
// before the call began, it returns that error instead. A peer's refusal is not shared,
// because the peer says nothing when it takes it back; but the next dial waits a little,
// so that a caller in a loop does not dial in one. Both nil: a connection is ready.
func (state *peerState) joinOrStartDial(began time.Time, background bool) (*dial, *kinds.Error) {
	if !state.node.mayDial(state.id) {
		return nil, state.node.newUnknownPeerError(state.id)
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	if state.current.Load() != nil {
		return nil, nil
	}
	if state.dial != nil {
		return state.dial, nil
	}
	var pause time.Duration
	if v := state.sharedFailure; v != nil {
		switch age := time.Since(state.sharedFailureAt); {
		case v.Code == kinds.NotTrusted:
			pause = refusalPause - age
		case age < v.memory && (v.Code != kinds.Unreachable || !state.sharedFailureAt.After(began)):
			return nil, v.Error
		}
	}
	ctx, cancel := context.WithTimeout(state.node.ctx, state.dialLimit(background))
	d := &dial{cancel: cancel, finished: make(chan struct{}), partial: background && state.node.hasPipe(state.id)}
	if !state.node.startTask(func() { state.runDial(ctx, d, pause) }) {
		cancel()
		return nil, state.node.newUnreachableError(state.id, kinds.DeliveredNo, "this daemon is shutting down")
	}
	state.dial = d
	return d, nil
}

// rememberAddr keeps an address where the peer has proved its key, to dial it first. On links
// other than UDP there is nothing to remember. Callers hold mu.
func (state *peerState) rememberAddr(p Path, addr string) {
	if p == Direct {
		state.lastGoodAddr = addr
	}
}

// finishDial ends the running dial, if there is one, and makes failure the shared one. nil means
// that a connection is ready, whichever side dialled. Callers hold mu, and call emitQueuedEvents
// after it.
func (state *peerState) finishDial(failure *dialFailure) {
	state.sharedFailure, state.sharedFailureAt = failure, time.Now()
	switch {
	case failure == nil:
		state.lastDialFailure, state.refusesUs, state.hostRefusedAddr = nil, false, ""
	case failure.refused:
		state.refusesUs = true
		state.queueEvent(Event{Type: EventRefused})
	}
	if state.dial == nil {
		return
	}
	if failure != nil {
		state.dial.err = failure.Error
	}
	close(state.dial.finished)
	state.dial.cancel()
	state.dial = nil
}

// runDial races the addresses, after a pause, and finishes the dial. That there was no address is
// remembered for no time: to look for one costs nothing, and there may be one at any moment.
func (state *peerState) runDial(ctx context.Context, d *dial, pause time.Duration) {
	_ = pace.Sleep(ctx, pause)
	state.mu.Lock()
	d.began = time.Now()
	state.mu.Unlock()
	routes := state.listRoutes(d.partial)
	var failure *dialFailure
	if len(routes) > 0 {
		failure = state.node.race(ctx, state.id, routes, state.dialLeg)
	}
	state.mu.Lock()
	if state.dial == d { // else a connection has finished it, or Disconnect
		switch {
		case failure != nil:
			state.lastDialFailure, state.lastDialFailedAt = failure.Error, time.Now()
		case state.lastDialFailure != nil && time.Since(state.lastDialFailedAt) < lastFailureCounts: // there were addresses a moment ago, and they are not to be tried again yet
			failure = &dialFailure{Error: state.lastDialFailure}
		default:
			failure = &dialFailure{Error: state.node.newUnreachableError(state.id, kinds.DeliveredNo, "there is no address to try; start its daemon, or give one with acpctl trust --addr HOST:PORT")}
		}
		if d.partial && failure.Code == kinds.Unreachable {
			failure.memory = 0 // a call may find the peer where this dial did not look
		}
		state.finishDial(failure)
	}
	state.mu.Unlock()
	state.emitQueuedEvents()
	if len(routes) > 0 {
		state.node.emitEvent(Event{Type: EventDialEnded, Peer: state.id, Err: d.err})
	}
}

// lastFailureCounts is how long a dial without an address fails as the one before did. It is longer than
// [Config.Addrs] may leave out an address.
const lastFailureCounts = 15 * time.Second

// dialLeg dials one address and blocks until that connection is ready or has failed, or
// ctx ends because another was quicker. That one, whose hello is out, is left to itself.
func (state *peerState) dialLeg(ctx context.Context, l leg) *dialFailure {
	qc, open, err := l.dialHandshake(ctx, state.id, identity.ALPN)
	if err != nil {
		return l.toDialFailure(state.id, state.recallHostRefusal(l, err))
	}
	c := newConn(l.on, qc, state.id)
	c.dialled, c.endsUnused = true, l.isOpened()
	defer context.AfterFunc(open, c.hearPipeEnd)() // the link may have told it before run listens
	if !state.node.startConn(c, nil) {
		return state.node.toDialFailure(state.id, l.text, quic.ErrTransportClosed)
	}
	select {
	case <-c.ready:
		return nil
	case <-c.runReturned:
		cause := c.endCause()
		if c.hasLostPipe() {
			cause = context.Cause(open) // which says more
		}
		f := state.node.toDialFailure(state.id, l.text, cause)
		f.isOfPipe = l.isOpened()
		if f.refused { // it is there, whoever named the address
			state.mu.Lock()
			state.rememberAddr(l.on.path, c.remoteAddr())
			state.mu.Unlock()
		}
		return f
	case <-ctx.Done():
		return l.toDialFailure(state.id, ctx.Err())
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

// dialHandshake opens and dials one address, and checks that the key there is id. What is opened
// ends with the connection. If the opened link ends by itself, so does open, as in [Opener].
func (l leg) dialHandshake(ctx context.Context, id identity.ID, alpn string) (qc *quic.Conn, open context.Context, err error) {
	open, release, err := l.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	qc, err = l.dialOpen(ctx, open, id, alpn)
	if err != nil {
		release()
		return nil, nil, err
	}
	context.AfterFunc(qc.Context(), release)
	return qc, open, nil
}

// dialOpen dials one address, as long as it is open, and checks that the key there is id. Meanwhile it finds
// out whether anybody is there.
func (l leg) dialOpen(ctx, open context.Context, id identity.ID, alpn string) (*quic.Conn, error) {
	n := l.on.node
	conf, err := n.cfg.Key.ClientTLS(id, n.cfg.RequirePQ, alpn)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(open, cancel)()
	var probing sync.WaitGroup
	var found probeResult
	if prober := l.on.prober; prober != nil && !l.isOpened() {
		probing.Go(func() {
			if found = prober.probeAddr(ctx, l.addr); found == probeRefused || found == probeNoRoute {
				cancel()
			}
		})
	}
	qc, err := l.on.transport.Dial(ctx, l.addr, conf, l.on.config)
	cancel()
	probing.Wait()
	switch {
	case err != nil && open.Err() != nil:
		return nil, context.Cause(open)
	case err != nil && found == probeRefused:
		return nil, errRefused
	case err != nil && found == probeNoRoute:
		return nil, errNoRoute
	}
	return qc, err
}
