package remote

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
)

type lineKey struct {
	host  identity.ID
	agent string
}

// line is what one agent sends to one host.
type line struct {
	turn    chan struct{} // holds one while somebody sends
	users   int           // who has or wants the turn
	waiting int           // parcels on disk
}

// enter waits for the turn of a line; leave gives it back.
func (q *parcels) enter(ctx context.Context, k lineKey) (*line, error) {
	q.mu.Lock()
	l := q.line(k)
	l.users++
	q.mu.Unlock()
	select {
	case l.turn <- struct{}{}:
		return l, nil
	case <-ctx.Done():
		q.change(k, l, -1, 0, 0)
		return nil, ctx.Err()
	}
}

// line returns the line of k; the lock is held.
func (q *parcels) line(k lineKey) *line {
	l := q.lines[k]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		q.lines[k] = l
	}
	return l
}

func (q *parcels) leave(k lineKey, l *line) {
	<-l.turn
	q.change(k, l, -1, 0, 0)
}

// change changes what is counted of a line. One that nobody needs is forgotten.
func (q *parcels) change(k lineKey, l *line, users, waiting, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count, q.bytes = q.count+waiting, q.bytes+bytes
	l.users, l.waiting = l.users+users, l.waiting+waiting
	if l.users == 0 && l.waiting == 0 {
		delete(q.lines, k)
	}
}

// waits reports whether a line has parcels on disk.
func (q *parcels) waits(k lineKey) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[k]
	return l != nil && l.waiting > 0
}

// run sends what waits until ctx ends: when it is woken, and now and then. No host
// waits for another.
func (q *parcels) run(ctx context.Context) {
	tick := time.NewTicker(parcelRetry)
	defer tick.Stop()
	couriers := newCouriers(func(host identity.ID) { q.courier(ctx, host) })
	defer couriers.wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		case <-tick.C:
			if err := q.forgetRefused(ctx, time.Now().Add(-refusedTime)); err != nil && ctx.Err() == nil {
				q.log.Warn("parcels", "err", err)
			}
		}
		for host := range q.due() {
			couriers.send(host)
		}
	}
}

// due returns the hosts that something waits for.
func (q *parcels) due() map[identity.ID]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	hosts := make(map[identity.ID]bool)
	for k, l := range q.lines {
		if l.waiting > 0 {
			hosts[k.host] = true
		}
	}
	return hosts
}

// courier sends what waits for a host, once.
func (q *parcels) courier(ctx context.Context, host identity.ID) {
	err := q.deliver(ctx, host)
	if err == nil || ctx.Err() != nil {
		return
	}
	level := slog.LevelWarn
	if outOfReach(err) {
		level = slog.LevelDebug
	}
	q.warn.Add(host, level, "messages wait for their host", "host", host.Label(), "err", err)
}

// deliver sends the parcels for a host, one of each line in turn, so that nobody waits
// for an agent that has much to say. What fails with one line keeps nothing from the
// others, unless it is the host that nobody gets through to.
func (q *parcels) deliver(ctx context.Context, host identity.ID) (failed error) {
	for lines := q.to(host); len(lines) > 0 && ctx.Err() == nil; {
		left := lines[:0]
		for _, k := range lines {
			sent, err := q.next(ctx, k)
			if _, ok := errors.AsType[*kinds.Error](err); ok {
				return err
			}
			failed = cmp.Or(failed, err)
			if sent {
				left = append(left, k)
			}
		}
		lines = left
	}
	return failed
}

// next sends the first parcel of a line, if there is one.
func (q *parcels) next(ctx context.Context, k lineKey) (sent bool, err error) {
	l, err := q.enter(ctx, k)
	if err != nil {
		return false, err
	}
	defer q.leave(k, l)
	p, err := q.read(ctx, func(tx *store.Tx) (*parcel, error) { return sqlFirst(tx, k) })
	if err != nil || p == nil {
		return false, err
	}
	defer func() {
		if p.letGo != nil {
			p.letGo()
		}
	}()
	status, answer, err := q.send(ctx, p)
	if err != nil {
		return false, err
	}
	size := len(p.body)
	if status < 300 {
		err = q.db.Write(context.WithoutCancel(ctx), true, func(tx *store.Tx) error { return sqlDrop(tx, p.seq) })
	} else {
		err = q.refuse(context.WithoutCancel(ctx), p, status, answer)
	}
	if err != nil {
		return false, err
	}
	q.change(k, l, 0, -1, -size)
	if status >= 300 {
		q.warn.Add(k.host, slog.LevelWarn, "a message that waited was refused", "id", p.id, "agent", p.agent, "host", p.host.Label(), "status", status)
	}
	return true, nil
}

// to returns the lines to a host.
func (q *parcels) to(host identity.ID) (keys []lineKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for k := range q.lines {
		if k.host == host {
			keys = append(keys, k)
		}
	}
	return keys
}

// drop forgets everything for a host that is trusted no more.
func (q *parcels) drop(ctx context.Context, host identity.ID) error {
	for _, k := range q.to(host) {
		if err := q.clear(ctx, k); err != nil {
			return err
		}
	}
	return q.db.Write(ctx, true, func(tx *store.Tx) error { return sqlDropRefused(tx, host) })
}

// known returns the hosts of which something is kept: parcels that wait, and refusals.
func (q *parcels) known(ctx context.Context) (hosts []identity.ID, err error) {
	err = q.db.Read(ctx, func(tx *store.Tx) error {
		hosts, err = sqlHosts(tx)
		return err
	})
	return hosts, err
}

// clear drops what waits in a line.
func (q *parcels) clear(ctx context.Context, k lineKey) error {
	l, err := q.enter(ctx, k)
	if err != nil {
		return err
	}
	defer q.leave(k, l)
	var n, bytes int
	err = q.db.Write(ctx, true, func(tx *store.Tx) error {
		n, bytes, err = sqlDropLine(tx, k)
		return err
	})
	if err == nil {
		q.change(k, l, 0, -n, -bytes)
	}
	return err
}
