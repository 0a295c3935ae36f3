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

// senderKey names an agent and the host to which it sends.
type senderKey struct {
	host  identity.ID
	agent string
}

// sender is an agent with what it sends to one host.
type sender struct {
	turn    chan struct{} // holds one while somebody sends
	turns   int           // who has or wants the turn
	waiting int           // messages on disk
}

// takeTurn waits until it is a sender's turn, or ctx ends; endTurn must be called then.
func (q *messageQueue) takeTurn(ctx context.Context, k senderKey) (*sender, error) {
	q.mu.Lock()
	s := q.senderOf(k)
	s.turns++
	q.mu.Unlock()
	select {
	case s.turn <- struct{}{}:
		return s, nil
	case <-ctx.Done():
		q.adjust(k, s, -1, 0, 0)
		return nil, ctx.Err()
	}
}

// senderOf returns the sender of k. The caller holds q.mu.
func (q *messageQueue) senderOf(k senderKey) *sender {
	s := q.senders[k]
	if s == nil {
		s = &sender{turn: make(chan struct{}, 1)}
		q.senders[k] = s
	}
	return s
}

// endTurn lets the next of the same sender have its turn.
func (q *messageQueue) endTurn(k senderKey, s *sender) {
	<-s.turn
	q.adjust(k, s, -1, 0, 0)
}

// adjust changes what is counted of a sender. One that nobody needs is forgotten.
func (q *messageQueue) adjust(k senderKey, s *sender, users, waiting, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count, q.bytes = q.count+waiting, q.bytes+bytes
	s.turns, s.waiting = s.turns+users, s.waiting+waiting
	if s.turns == 0 && s.waiting == 0 {
		delete(q.senders, k)
	}
}

// hasWaiting reports whether messages of a sender are on disk.
func (q *messageQueue) hasWaiting(k senderKey) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.senders[k]
	return s != nil && s.waiting > 0
}

// run sends what waits until ctx ends: when it is woken, and now and then. No host
// waits for another.
func (q *messageQueue) run(ctx context.Context) {
	tick := time.NewTicker(deliverEvery)
	defer tick.Stop()
	workers := newHostWorkers(func(host identity.ID) { q.deliverAndLog(ctx, host) })
	defer workers.waitAll()
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		case <-tick.C:
			if err := q.forgetRefused(ctx, time.Now().Add(-refusedTime)); err != nil && ctx.Err() == nil {
				q.log.Warn("refusals of hosts are not forgotten", "err", err)
			}
		}
		for host := range q.waitingHosts() {
			workers.start(host)
		}
	}
}

// waitingHosts returns the hosts that something waits for.
func (q *messageQueue) waitingHosts() map[identity.ID]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	hosts := make(map[identity.ID]bool)
	for k, s := range q.senders {
		if s.waiting > 0 {
			hosts[k.host] = true
		}
	}
	return hosts
}

// deliverAndLog sends what waits for a host, once.
func (q *messageQueue) deliverAndLog(ctx context.Context, host identity.ID) {
	err := q.deliver(ctx, host)
	if err == nil || ctx.Err() != nil {
		return
	}
	level := slog.LevelWarn
	if isOutOfReach(err) {
		level = slog.LevelDebug
	}
	q.hostLog.Add(host, level, "messages wait for their host", "host", host.Label(), "err", err)
}

// deliver sends the messages for a host, one of each sender in turn, so that nobody waits
// for an agent that has much to say. What fails with one sender keeps nothing from the
// others, unless it is the host that nobody gets through to.
func (q *messageQueue) deliver(ctx context.Context, host identity.ID) (failed error) {
	for keys := q.sendersTo(host); len(keys) > 0 && ctx.Err() == nil; {
		left := keys[:0]
		for _, k := range keys {
			sent, err := q.deliverFirst(ctx, k)
			if _, ok := errors.AsType[*kinds.Error](err); ok {
				return err
			}
			failed = cmp.Or(failed, err)
			if sent {
				left = append(left, k)
			}
		}
		keys = left
	}
	return failed
}

// deliverFirst sends the first message of a sender, if there is one.
func (q *messageQueue) deliverFirst(ctx context.Context, k senderKey) (sent bool, err error) {
	s, err := q.takeTurn(ctx, k)
	if err != nil {
		return false, err
	}
	defer q.endTurn(k, s)
	p, err := q.readMessage(ctx, func(tx *store.Tx) (*outgoingMessage, error) { return sqlFirstWaiting(tx, k) })
	if err != nil || p == nil {
		return false, err
	}
	defer func() {
		if p.endCharge != nil {
			p.endCharge()
		}
	}()
	status, answer, err := q.post(ctx, p)
	if err != nil {
		return false, err
	}
	size := len(p.body)
	if status < 300 {
		err = q.db.Write(context.WithoutCancel(ctx), true, func(tx *store.Tx) error { return sqlDropMessage(tx, p.seq) })
	} else {
		err = q.keepRefusal(context.WithoutCancel(ctx), p, status, answer)
	}
	if err != nil {
		return false, err
	}
	q.adjust(k, s, 0, -1, -size)
	if status >= 300 {
		q.hostLog.Add(k.host, slog.LevelWarn, "a message that waited was refused", "id", p.id, "agent", p.agent, "host", p.host.Label(), "status", status)
	}
	return true, nil
}

// sendersTo returns those who have messages for a host.
func (q *messageQueue) sendersTo(host identity.ID) (keys []senderKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for k := range q.senders {
		if k.host == host {
			keys = append(keys, k)
		}
	}
	return keys
}

// forgetHost forgets everything for a host that is trusted no more.
func (q *messageQueue) forgetHost(ctx context.Context, host identity.ID) error {
	for _, k := range q.sendersTo(host) {
		if err := q.dropWaiting(ctx, k); err != nil {
			return err
		}
	}
	return q.db.Write(ctx, true, func(tx *store.Tx) error { return sqlDropRefused(tx, host) })
}

// hosts returns the hosts of which something is kept: messages that wait, and refusals.
func (q *messageQueue) hosts(ctx context.Context) (hosts []identity.ID, err error) {
	err = q.db.Read(ctx, func(tx *store.Tx) error {
		hosts, err = sqlHosts(tx)
		return err
	})
	return hosts, err
}

// dropWaiting drops what of a sender waits.
func (q *messageQueue) dropWaiting(ctx context.Context, k senderKey) error {
	s, err := q.takeTurn(ctx, k)
	if err != nil {
		return err
	}
	defer q.endTurn(k, s)
	var n, bytes int
	err = q.db.Write(ctx, true, func(tx *store.Tx) error {
		n, bytes, err = sqlDropWaiting(tx, k)
		return err
	})
	if err == nil {
		q.adjust(k, s, 0, -n, -bytes)
	}
	return err
}
