package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// What may read at a time. One slow list of a peer must not hold up the others, so
// there are several connections; one is always left for the daemon's own reads, and
// a peer has two, so that two of its agents do not wait for each other.
const (
	maxReaders     = 4
	maxPeerReaders = 3 // of them, for all peers
	maxOnePeer     = 2 // of them, for one
)

// readerIdle is how long read connections, about 100 KiB each, outlive their last
// use.
const readerIdle = 10 * time.Second

// readers gives out the read connections.
type readers struct {
	dropping sync.Mutex // held while idle connections are closed: the writer's closes last

	mu      sync.Mutex // guards what follows
	idle    []*conn    // open and unused, the last used at the end
	using   map[any]*usage
	used    int // connections given out
	peers   int // of them, to peers
	turn    uint64
	waiting []*readWait // in order of arrival
	closed  bool
	drained chan struct{} // closed when closed and none is given out
	timer   *time.Timer   // closes what is idle
}

// usage counts what one owner has of the connections.
type usage struct {
	has  int
	wait int
	last uint64 // the turn at which it was served last
}

type readWait struct {
	owner any
	ready chan *conn // gets the connection, nil where it must be opened; closed with the store
}

func newReaders() *readers {
	r := &readers{using: make(map[any]*usage), drained: make(chan struct{})}
	r.timer = time.AfterFunc(readerIdle, func() { r.dropIdle() })
	r.timer.Stop()
	return r
}

// takeConn blocks until a read connection is free; nil: the caller opens one. The caller
// gives it back with giveConn.
func (r *readers) takeConn(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	who := ownerOf(ctx)
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	u := r.using[who]
	if u == nil {
		u = new(usage)
		r.using[who] = u
	}
	if u.wait == 0 && r.hasRoom(who, u) {
		c := r.serveOwner(who, u)
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
			return nil, ErrClosed
		}
		return c, nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	i := slices.Index(r.waiting, w)
	if i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
		u.wait--
		r.forgetOwner(who, u)
	}
	r.mu.Unlock()
	if i < 0 { // it was served, or the store closed, meanwhile
		if c, ok := <-w.ready; ok {
			r.giveConn(who, c)
		}
	}
	return nil, ctx.Err()
}

// hasRoom reports whether who may have one more connection.
func (r *readers) hasRoom(who any, u *usage) bool {
	if who == nil {
		return r.used < maxReaders
	}
	return r.used < maxReaders && r.peers < maxPeerReaders && u.has < maxOnePeer
}

// serveOwner gives who a connection.
func (r *readers) serveOwner(who any, u *usage) (c *conn) {
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

// forgetOwner removes an owner that neither reads nor waits.
func (r *readers) forgetOwner(who any, u *usage) {
	if u.has == 0 && u.wait == 0 {
		delete(r.using, who)
	}
}

// giveConn takes a connection back, nil if it broke, and gives it to a read that waits:
// of the owner that was served longest ago.
func (r *readers) giveConn(who any, c *conn) {
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
	for r.serveNext() {
	}
	r.forgetOwner(who, u)
	if r.closed && r.used == 0 {
		close(r.drained)
		return
	}
	r.timer.Reset(readerIdle)
}

func (r *readers) serveNext() bool {
	next := -1
	for i, w := range r.waiting {
		u := r.using[w.owner]
		if r.hasRoom(w.owner, u) && (next < 0 || u.last < r.using[r.waiting[next].owner].last) {
			next = i
		}
	}
	if next < 0 {
		return false
	}
	w := r.waiting[next]
	r.waiting = slices.Delete(r.waiting, next, next+1)
	u := r.using[w.owner]
	u.wait--
	w.ready <- r.serveOwner(w.owner, u)
	return true
}

// dropIdle closes the connections that no read uses.
func (r *readers) dropIdle() error {
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
func (r *readers) close() error {
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
	return r.dropIdle()
}
