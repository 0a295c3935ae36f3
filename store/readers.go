package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// How many may read at a time. One slow list of a peer must not hold up the others, so
// there are several connections; one is always left for the daemon's own reads, and
// a peer has two, so that two of its agents do not wait for each other.
const (
	maxReaders     = 4
	maxPeerReaders = 3 // of them, for all peers
	maxOnePeer     = 2 // of them, for one
)

// readerIdle is the time for which read connections, about 100 KiB each, stay open after
// their last use.
const readerIdle = 10 * time.Second

// readerPool gives out the read connections.
type readerPool struct {
	dropping sync.Mutex // held while idle connections are closed: the writer's closes last

	mu      sync.Mutex // guards what follows
	idle    []*conn    // open and unused, the last used at the end
	using   map[any]*usage
	used    int // connections given out
	peers   int // of them, to peers
	turn    uint64
	waiting []*readWait // in order of arrival
	closed  bool
	drained chan struct{} // closed when the pool is closed and all connections are back
	timer   *time.Timer   // closes what is idle
}

// usage is how much of the connections one requester has.
type usage struct {
	has  int
	wait int
	last uint64 // the turn at which it was served last
}

type readWait struct {
	requester any
	ready     chan *conn // receives the connection, nil if the read has to open it; closed with the store
}

func newReaderPool() *readerPool {
	r := &readerPool{using: make(map[any]*usage), drained: make(chan struct{})}
	r.timer = time.AfterFunc(readerIdle, func() { r.closeIdleConns() })
	r.timer.Stop()
	return r
}

// acquireConn blocks until the caller may have a read connection. If it returns nil, the caller
// opens one. The caller gives it back with releaseConn.
func (r *readerPool) acquireConn(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	who := requesterOf(ctx)
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, errClosed
	}
	u := r.using[who]
	if u == nil {
		u = new(usage)
		r.using[who] = u
	}
	if u.wait == 0 && r.mayAcquireConn(who, u) {
		c := r.assignConn(who, u)
		r.mu.Unlock()
		return c, nil
	}
	w := &readWait{who, make(chan *conn, 1)}
	r.waiting = append(r.waiting, w)
	u.wait++
	r.mu.Unlock()
	select {
	case c, ok := <-w.ready:
		if !ok {
			return nil, errClosed
		}
		return c, nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	i := slices.Index(r.waiting, w)
	if i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
		u.wait--
		r.forgetRequester(who, u)
	}
	r.mu.Unlock()
	if i < 0 { // it was served, or the store closed, meanwhile
		if c, ok := <-w.ready; ok {
			r.releaseConn(who, c)
		}
	}
	return nil, ctx.Err()
}

// mayAcquireConn reports whether a requester may have one more connection. The caller holds mu.
func (r *readerPool) mayAcquireConn(who any, u *usage) bool {
	return r.used < maxReaders && (who == nil || r.peers < maxPeerReaders && u.has < maxOnePeer)
}

// assignConn gives a requester one more connection. It returns an idle one, or nil if all
// are in use. The caller holds mu.
func (r *readerPool) assignConn(who any, u *usage) (c *conn) {
	r.turn++
	u.last = r.turn
	u.has++
	r.used++
	if who != nil {
		r.peers++
	}
	if n := len(r.idle); n > 0 {
		c, r.idle = r.idle[n-1], r.idle[:n-1]
	}
	return c
}

// forgetRequester removes a requester that neither reads nor waits. The caller holds mu.
func (r *readerPool) forgetRequester(who any, u *usage) {
	if u.has == 0 && u.wait == 0 {
		delete(r.using, who)
	}
}

// releaseConn takes a connection back, nil if it broke. The waiting read whose requester was served
// longest ago gets it.
func (r *readerPool) releaseConn(who any, c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.using[who]
	u.has--
	r.used--
	if who != nil {
		r.peers--
	}
	if c != nil {
		r.idle = append(r.idle, c)
	}
	for r.serveNextWaiting() {
	}
	r.forgetRequester(who, u)
	if r.closed && r.used == 0 {
		close(r.drained)
		return
	}
	r.timer.Reset(readerIdle)
}

// serveNextWaiting serves the waiting read whose requester was served longest ago, and reports whether
// there was one that may have a connection. The caller holds mu.
func (r *readerPool) serveNextWaiting() bool {
	next := -1
	for i, w := range r.waiting {
		u := r.using[w.requester]
		if r.mayAcquireConn(w.requester, u) && (next < 0 || u.last < r.using[r.waiting[next].requester].last) {
			next = i
		}
	}
	if next < 0 {
		return false
	}
	w := r.waiting[next]
	r.waiting = slices.Delete(r.waiting, next, next+1)
	u := r.using[w.requester]
	u.wait--
	w.ready <- r.assignConn(w.requester, u)
	return true
}

// closeIdleConns closes the connections that no read uses.
func (r *readerPool) closeIdleConns() error {
	r.dropping.Lock()
	defer r.dropping.Unlock()
	r.mu.Lock()
	idle := r.idle
	r.idle = nil
	r.mu.Unlock()
	var errs []error
	for _, c := range idle {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}

// close refuses further reads, waits for those that run, and closes the
// connections.
func (r *readerPool) close() error {
	r.mu.Lock()
	r.closed = true
	for _, w := range r.waiting {
		close(w.ready)
	}
	r.waiting = nil
	if r.used == 0 {
		close(r.drained)
	}
	r.mu.Unlock()
	<-r.drained
	r.timer.Stop()
	return r.closeIdleConns()
}
