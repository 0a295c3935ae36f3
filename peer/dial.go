package peer

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

const (
	dialTime    = 2800 * time.Millisecond // so that a call has its answer within 3 s
	dialStagger = 100 * time.Millisecond
	maxDialIPs  = 8 // of one host name
)

// dial is one attempt at a peer's addresses; the calls that need the peer wait on
// it together.
type dial struct {
	began   time.Time // for whoever hears err
	cancel  context.CancelFunc
	settled chan struct{} // closed when a connection is ready or all have failed
	err     *kinds.Error  // set before settled is closed
}

// failure is why there is no connection, and for how long calls share that.
type failure struct {
	*kinds.Error
	memory  time.Duration
	refused bool // by the peer itself, which proved its key: it does not trust us
}

// ready returns a connection that answers: the one in use, proven alive if it has
// been silent, or a new one. It blocks for 3 s at most; the error says that
// nothing was sent.
func (r *remote) ready(ctx context.Context) (*conn, *kinds.Error) {
	if c := r.current.Load(); c != nil && !c.silentFor(silence) {
		return c, nil
	}
	limited, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	for began := time.Now(); ; {
		if c := r.current.Load(); c != nil && c.prove(limited) {
			return c, nil
		}
		if limited.Err() != nil {
			return nil, r.gaveUp(ctx)
		}
		d, err := r.startDial(began)
		if err != nil {
			return nil, err
		}
		if d == nil {
			continue // a connection became ready meanwhile
		}
		select {
		case <-d.settled:
			// That one which is older than the call failed says little: its last packet
			// may have left before the network came back, or the peer trusted this node.
			if err := r.errOf(d, began); err != nil {
				return nil, err
			}
		case <-limited.Done():
			return nil, r.gaveUp(ctx)
		}
	}
}

// errOf returns why a dial that is over failed, nil where it began before then.
func (r *remote) errOf(d *dial, then time.Time) *kinds.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.began.Before(then) {
		return nil
	}
	return d.err
}

// gaveUp says why ready did: the caller's ctx ended, or its own time.
func (r *remote) gaveUp(ctx context.Context) *kinds.Error {
	if ctx.Err() != nil {
		return contextError(r.node, ctx, r.id, kinds.DeliveredNo)
	}
	return r.node.unreachable(r.id, kinds.DeliveredNo, "no answer; check that its daemon runs and the network between")
}

// startDial joins the running dial or starts one; a verdict that was fresh when the
// call began is shared instead. A refusal is not, since the peer says nothing when
// it takes it back, but who calls in a loop shall not dial in one: the next dial
// waits a little. Both nil: a connection is ready.
func (r *remote) startDial(began time.Time) (*dial, *kinds.Error) {
	if _, ok := r.node.cfg.Trust.Get(r.id); !ok {
		return nil, r.node.unknown(r.id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current.Load() != nil {
		return nil, nil
	}
	if r.dial != nil {
		return r.dial, nil
	}
	var pause time.Duration
	if v := r.verdict; v != nil {
		switch age := time.Since(r.verdictAt); {
		case v.Code == kinds.NotTrusted:
			pause = refusalPause - age
		case age < v.memory && (v.Code != kinds.Unreachable || !r.verdictAt.After(began)):
			return nil, v.Error
		}
	}
	ctx, cancel := context.WithTimeout(r.node.ctx, dialTime)
	d := &dial{cancel: cancel, settled: make(chan struct{})}
	if !r.node.begin(func() { r.runDial(ctx, d, pause) }) {
		cancel()
		return nil, r.node.unreachable(r.id, kinds.DeliveredNo, "this daemon is shutting down")
	}
	r.dial = d
	return d, nil
}

// settle ends the running dial, if there is one, with a verdict; nil: a
// connection is ready, whoever dialled. Callers hold mu, and call tell after it.
func (r *remote) settle(verdict *failure) {
	r.verdict, r.verdictAt = verdict, time.Now()
	switch {
	case verdict == nil:
		r.failed = nil
	case verdict.refused:
		r.note(Event{Type: EventRefused})
	}
	if r.dial == nil {
		return
	}
	if verdict != nil {
		r.dial.err = verdict.Error
	}
	close(r.dial.settled)
	r.dial.cancel()
	r.dial = nil
}

// runDial tries the addresses, after a pause, until one gives a ready connection.
func (r *remote) runDial(ctx context.Context, d *dial, pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
	r.mu.Lock()
	d.began = time.Now()
	r.mu.Unlock()
	addrs := r.addrs()
	var verdict *failure
	if len(addrs) > 0 {
		verdict = r.node.raceAddrs(ctx, r.id, addrs, r.tryAddr)
	}
	r.mu.Lock()
	switch {
	case r.dial != d: // a connection has settled it, or Disconnect
	case verdict != nil:
		r.failed = verdict.Error
	case r.failed != nil: // there were addresses a moment ago, and they are not to be tried again yet
		verdict = &failure{Error: r.failed, memory: shareVerdict}
	default:
		verdict = &failure{Error: r.node.unreachable(r.id, kinds.DeliveredNo, "there is no address to try; start its daemon, or give one with acpctl trust --addr HOST:PORT"), memory: shareVerdict}
	}
	if r.dial == d {
		r.settle(verdict)
	}
	r.mu.Unlock()
	r.tell()
}

// addrs returns where to dial: first the address where the peer last proved its key.
func (r *remote) addrs() []string {
	known := r.node.cfg.Addrs(r.id)
	r.mu.Lock()
	good := r.lastGood
	r.mu.Unlock()
	if good == "" {
		return known
	}
	return append([]string{good}, slices.DeleteFunc(slices.Clone(known), func(a string) bool { return a == good })...)
}

// tryAddr dials one address until a connection is ready, this or another. What it
// leaves behind when another was quicker has its hello out and runs its course.
func (r *remote) tryAddr(ctx context.Context, addr string, udp *net.UDPAddr) *failure {
	qc, err := r.node.handshake(ctx, r.id, identity.ALPN, udp)
	if err != nil {
		return r.node.failed(r.id, addr, err)
	}
	c := newConn(r.node, qc, r.id)
	if !r.node.begin(func() { defer r.node.endWith(qc)(); c.run() }) {
		qc.CloseWithError(closeShutdown, "shutting down")
		return r.node.failed(r.id, addr, quic.ErrTransportClosed)
	}
	select {
	case <-c.ready:
		return nil
	case <-c.ended:
		f := r.node.failed(r.id, addr, c.endedWith())
		if f.refused { // it is there, whoever named the address
			r.mu.Lock()
			r.lastGood = c.addr()
			r.mu.Unlock()
		}
		return f
	case <-ctx.Done():
		return r.node.failed(r.id, addr, ctx.Err())
	}
}

// failed makes the verdict of an error, and says how long it is shared: longest
// where the peer saw a clone of this identity.
func (n *Node) failed(id identity.ID, addr string, err error) *failure {
	f := &failure{Error: n.dialError(id, addr, err), memory: shareVerdict, refused: closedWith(err, closeNotTrusted)}
	switch {
	case errors.Is(err, errNoRoute):
		f.memory = 0 // this host knows by itself, at once, and first of all when that has changed
	case errors.Is(err, errRefused):
		f.memory = refusedMemory // the answer is quick to have again, and may change as quickly
	case closedWith(err, closeIdentityConflict):
		f.memory = cloneWait
	}
	return f
}

// handshake dials one address and pins the peer. Beside it the host is asked
// whether anything listens there.
func (n *Node) handshake(ctx context.Context, id identity.ID, alpn string, addr *net.UDPAddr) (*quic.Conn, error) {
	conf, err := n.cfg.Key.ClientTLS(id, n.cfg.RequirePQ, alpn)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var probing sync.WaitGroup
	var found verdict
	if n.probe != nil {
		probing.Go(func() {
			if found = n.probe(ctx, addr); found == refused || found == noRoute {
				cancel()
			}
		})
	}
	qc, err := n.transport.Dial(ctx, addr, conf, n.config)
	cancel()
	probing.Wait()
	switch {
	case err != nil && found == refused:
		return nil, errRefused
	case err != nil && found == noRoute:
		return nil, errNoRoute
	}
	return qc, err
}
