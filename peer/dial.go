package peer

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

const (
	dialTime    = 3 * time.Second
	dialStagger = 100 * time.Millisecond
	minBackoff  = 250 * time.Millisecond
	maxBackoff  = 30 * time.Second
)

// dial is one attempt at a peer's addresses; the calls that need the peer wait on
// it together.
type dial struct {
	cancel  context.CancelFunc
	once    sync.Once
	settled chan struct{} // closed when a connection is ready or all have failed
	err     *kinds.Error  // set before settled is closed
}

func (d *dial) settle(err *kinds.Error) {
	d.once.Do(func() {
		d.err = err
		close(d.settled)
	})
}

// ready returns a connection that answers: the one in use, proven alive if it has
// been silent, or a new one. It blocks for 3 s at most; the error says that
// nothing was sent.
func (r *remote) ready(ctx context.Context) (*conn, *kinds.Error) {
	if c := r.current.Load(); c != nil && !c.silentFor(silence) {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	for {
		if c := r.current.Load(); c != nil && c.prove(ctx) {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, r.node.unreachable(r.id, kinds.DeliveredNo, "no answer; check that its daemon runs and the network between")
		}
		d, err := r.startDial()
		if err != nil {
			return nil, err
		}
		if d == nil {
			continue // a connection became ready meanwhile
		}
		select {
		case <-d.settled:
			if d.err != nil {
				return nil, d.err
			}
		case <-ctx.Done():
			return nil, r.gaveUp(ctx)
		}
	}
}

func (r *remote) gaveUp(ctx context.Context) *kinds.Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return contextError(r.node, ctx, r.id, kinds.DeliveredNo)
	}
	return r.node.unreachable(r.id, kinds.DeliveredNo, "no answer; check that its daemon runs and the network between")
}

// startDial joins the running dial or starts one; a fresh verdict is shared
// instead. Both nil: a connection is ready.
func (r *remote) startDial() (*dial, *kinds.Error) {
	if _, ok := r.node.cfg.Trust.Get(r.id); !ok {
		return nil, kinds.Errorf(kinds.UnknownPeer, "%s is not trusted here; acpctl trust its full id first", r.id.Label()).WithDelivered(kinds.DeliveredNo)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current.Load() != nil {
		return nil, nil
	}
	if r.dial != nil {
		return r.dial, nil
	}
	if err := r.recentVerdict(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.node.ctx, dialTime)
	d := &dial{cancel: cancel, settled: make(chan struct{})}
	if !r.node.begin(func() { r.runDial(ctx, d) }) {
		cancel()
		return nil, r.node.unreachable(r.id, kinds.DeliveredNo, "this daemon is shutting down")
	}
	r.dial = d
	return d, nil
}

// recentVerdict returns a verdict that calls still share. Callers hold mu.
func (r *remote) recentVerdict() *kinds.Error {
	if r.verdict == nil {
		return nil
	}
	memory := shareVerdict
	switch r.verdict.Code {
	case kinds.NotTrusted:
		memory = refusalMemory
	case kinds.IdentityConflict:
		memory = cloneWait
	}
	if time.Since(r.verdictAt) < memory {
		return r.verdict
	}
	return nil
}

// runDial tries the addresses 100 ms apart until one gives a ready connection.
func (r *remote) runDial(ctx context.Context, d *dial) {
	defer d.cancel()
	var (
		addrs   = r.addrs()
		results = make(chan *kinds.Error, len(addrs))
		verdict = r.node.unreachable(r.id, kinds.DeliveredNo, "no address is known; start its daemon, or give one with acpctl trust --addr HOST:PORT")
		running sync.WaitGroup
		left    = len(addrs)
	)
	for i, addr := range addrs {
		running.Go(func() {
			select {
			case <-time.After(time.Duration(i) * dialStagger):
			case <-d.settled:
				results <- nil
				return
			case <-ctx.Done():
			}
			results <- r.tryAddr(ctx, d, addr)
		})
	}
	for ; left > 0; left-- {
		err := <-results
		if err == nil {
			verdict = nil
			break
		}
		if left == len(addrs) || rank(err) > rank(verdict) {
			verdict = err
		}
		if err.Code == kinds.NotTrusted {
			break // its word is final: no other address will say otherwise
		}
	}
	r.mu.Lock()
	r.dial = nil
	r.verdict, r.verdictAt = verdict, time.Now()
	d.settle(verdict) // without effect if a connection became ready
	r.mu.Unlock()
	d.cancel()
	running.Wait()
}

// rank orders verdicts: what a peer said outweighs what the network did.
func rank(err *kinds.Error) int {
	switch err.Code {
	case kinds.NotTrusted:
		return 4
	case kinds.IncompatibleVersion, kinds.Overloaded:
		return 3
	case kinds.IdentityConflict:
		return 2
	}
	return 1
}

// addrs returns where to dial: the address that last worked first.
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

// tryAddr dials one address until a connection is ready; nil: one is, this or
// another.
func (r *remote) tryAddr(ctx context.Context, d *dial, addr string) *kinds.Error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	udp, err := net.ResolveUDPAddr("udp", addr)
	if host, _, e := net.SplitHostPort(addr); e == nil && net.ParseIP(strings.SplitN(host, "%", 2)[0]) == nil {
		udp, err = resolve(ctx, addr)
	}
	if err != nil {
		return r.node.unreachable(r.id, kinds.DeliveredNo, "address %s: %v", addr, err)
	}
	if r.node.probe != nil {
		var probing sync.WaitGroup
		defer probing.Wait()
		defer cancel(nil)
		probing.Go(func() {
			if r.node.probe(ctx, udp) == refused {
				cancel(errRefused)
			}
		})
	}
	c, err := r.node.dialConn(ctx, r.id, udp)
	if err != nil {
		if context.Cause(ctx) == errRefused {
			err = errRefused
		}
		return r.node.dialError(r.id, addr, err)
	}
	select {
	case <-c.ready:
		return nil
	case <-d.settled:
		return nil // by another connection; this one's hello is out and runs its course
	case <-c.ended:
		return r.node.dialError(r.id, addr, c.endedWith())
	case <-ctx.Done():
		if context.Cause(ctx) == errRefused {
			c.close(closeDead, "refused")
			return r.node.dialError(r.id, addr, errRefused)
		}
		return r.node.dialError(r.id, addr, ctx.Err())
	}
}

// resolve looks a host name up.
func resolve(ctx context.Context, addr string) (*net.UDPAddr, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	return net.ResolveUDPAddr("udp", net.JoinHostPort(ips[0].String(), port))
}

// dialConn completes a handshake and starts the connection.
func (n *Node) dialConn(ctx context.Context, id identity.ID, addr net.Addr) (*conn, error) {
	conf, err := n.clientTLS(id, identity.ALPN)
	if err != nil {
		return nil, err
	}
	qc, err := n.transport.Dial(ctx, addr, conf, n.config)
	if err != nil {
		return nil, err
	}
	c := newConn(n, qc, id)
	if !n.begin(func() { c.run(helloTime, true) }) {
		qc.CloseWithError(closeShutdown, "shutting down")
		return nil, quic.ErrTransportClosed
	}
	return c, nil
}

// reconnect makes sure that one goroutine tries to reach the peer, from the
// shortest pause on.
func (r *remote) reconnect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retry != nil {
		select {
		case r.retry <- struct{}{}:
		default:
		}
		return
	}
	retry := make(chan struct{}, 1)
	if r.node.begin(func() { r.runReconnect(retry) }) {
		r.retry = retry
	}
}

// runReconnect dials with pauses from 0.25 s to 30 s and full jitter until the
// peer is connected, refuses, or is not to be kept.
func (r *remote) runReconnect(retry chan struct{}) {
	backoff := minBackoff
	for {
		_, err := r.ready(r.node.ctx)
		r.mu.Lock()
		stop := err == nil || !r.keep || r.node.ctx.Err() != nil || err.Code == kinds.NotTrusted || err.Code == kinds.UnknownPeer
		if stop && len(retry) == 0 {
			r.retry = nil
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		pause := rand.N(backoff)
		backoff = min(2*backoff, maxBackoff)
		if err != nil && err.Code == kinds.IdentityConflict {
			pause = cloneWait
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-retry:
			backoff = minBackoff
		case <-r.node.ctx.Done():
		}
		timer.Stop()
	}
}
