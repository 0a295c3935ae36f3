package remote

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
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

// sender counts what one agent sends to one host.
type sender struct {
	turn    chan struct{} // holds one while somebody sends
	turns   int           // how many have or want the turn
	waiting int           // messages on disk
}

// acquireTurn waits for the turn to send messages of a sender; the caller gives it back with releaseTurn.
// If ctx ends first, it returns an error.
func (q *messageQueue) acquireTurn(ctx context.Context, k senderKey) (*sender, error) {
	q.mu.Lock()
	s := q.findOrAddSender(k)
	s.turns++
	q.mu.Unlock()
	select {
	case s.turn <- struct{}{}:
		return s, nil
	case <-ctx.Done():
		q.adjustCounts(k, s, -1, 0, 0)
		return nil, ctx.Err()
	}
}

// findOrAddSender returns the sender with that key. The caller holds q.mu.
func (q *messageQueue) findOrAddSender(k senderKey) *sender {
	s := q.senders[k]
	if s == nil {
		s = &sender{turn: make(chan struct{}, 1)}
		q.senders[k] = s
	}
	return s
}

// releaseTurn gives back the turn of a sender.
func (q *messageQueue) releaseTurn(k senderKey, s *sender) {
	<-s.turn
	q.adjustCounts(k, s, -1, 0, 0)
}

// adjustCounts adds to the counts of a sender and of the queue. A sender without turns and messages
// is forgotten.
func (q *messageQueue) adjustCounts(k senderKey, s *sender, users, waiting, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count, q.bytes = q.count+waiting, q.bytes+bytes
	s.turns, s.waiting = s.turns+users, s.waiting+waiting
	if s.turns == 0 && s.waiting == 0 {
		delete(q.senders, k)
	}
}

// hasWaitingMessages reports whether messages of a sender are on disk.
func (q *messageQueue) hasWaitingMessages(k senderKey) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.senders[k]
	return s != nil && s.waiting > 0
}

// run sends what waits until ctx ends: when it is woken, and now and then.
func (q *messageQueue) run(ctx context.Context) {
	runHostWorkers(ctx, deliverEvery, q.wake, func(onTime bool) []identity.ID {
		if onTime {
			if err := q.deleteOldRefused(ctx, time.Now().Add(-refusedTime)); err != nil && ctx.Err() == nil {
				q.log.Warn("refusals of hosts are not forgotten", "err", err)
			}
		}
		return q.listWaitingHosts()
	}, func(host identity.ID) {
		err := q.deliverWaitingMessages(ctx, host)
		if err == nil || ctx.Err() != nil {
			return
		}
		level := slog.LevelWarn
		if isHostOutOfReach(err) {
			level = slog.LevelDebug
		}
		q.hostLog.WriteLimited(host, level, "messages wait for their host", "host", host.Label(), "err", err)
	})
}

// listWaitingHosts returns the hosts for which messages wait.
func (q *messageQueue) listWaitingHosts() (hosts []identity.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for k, s := range q.senders {
		if s.waiting > 0 && !slices.Contains(hosts, k.host) {
			hosts = append(hosts, k.host)
		}
	}
	return hosts
}

// deliverWaitingMessages sends the messages that wait for a host, one of each sender in turn, so that no
// agent waits for one with many messages. If a message fails, the other senders continue, unless the
// host takes nothing for now.
func (q *messageQueue) deliverWaitingMessages(ctx context.Context, host identity.ID) (failed error) {
	for keys := q.listSendersTo(host); len(keys) > 0 && ctx.Err() == nil; {
		left := keys[:0]
		for _, k := range keys {
			sent, err := q.deliverFirstMessage(ctx, k)
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

// deliverFirstMessage sends the first message of a sender that waits. sent is false if there is none.
func (q *messageQueue) deliverFirstMessage(ctx context.Context, k senderKey) (sent bool, err error) {
	s, err := q.acquireTurn(ctx, k)
	if err != nil {
		return false, err
	}
	defer q.releaseTurn(k, s)
	p, err := readInTransaction(ctx, q.db, func(tx *store.Tx) (*outgoingMessage, error) { return sqlReadFirstWaitingMessage(tx, k) })
	if err != nil || p == nil {
		return false, err
	}
	status, answer, err := q.post(ctx, p)
	if p.endCharge != nil {
		defer p.endCharge()
	}
	if err != nil {
		return false, err
	}
	size := len(p.body)
	if status < 300 {
		err = q.db.Write(context.WithoutCancel(ctx), true, func(tx *store.Tx) error { return sqlDeleteMessage(tx, p.seq) })
	} else {
		err = q.storeRefusal(context.WithoutCancel(ctx), p, status, answer)
	}
	if err != nil {
		return false, err
	}
	q.adjustCounts(k, s, 0, -1, -size)
	if status >= 300 {
		q.hostLog.WriteLimited(k.host, slog.LevelWarn, "a message that waited was refused", "id", p.id, "agent", p.agent, "host", p.host.Label(), "status", status)
	}
	return true, nil
}

// listSendersTo returns the senders that have messages for a host, or a turn to send one.
func (q *messageQueue) listSendersTo(host identity.ID) (keys []senderKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for k := range q.senders {
		if k.host == host {
			keys = append(keys, k)
		}
	}
	return keys
}

// deleteHostMessages drops all messages for a host that is no longer trusted.
func (q *messageQueue) deleteHostMessages(ctx context.Context, host identity.ID) error {
	for _, k := range q.listSendersTo(host) {
		if err := q.deleteWaitingMessages(ctx, k); err != nil {
			return err
		}
	}
	return q.db.Write(ctx, true, func(tx *store.Tx) error { return sqlDeleteRefusedMessages(tx, host) })
}

// listHosts returns the hosts of messages that wait or were refused.
func (q *messageQueue) listHosts(ctx context.Context) ([]identity.ID, error) {
	return readInTransaction(ctx, q.db, sqlListMessageHosts)
}

// deleteWaitingMessages drops the messages of a sender that wait.
func (q *messageQueue) deleteWaitingMessages(ctx context.Context, k senderKey) error {
	s, err := q.acquireTurn(ctx, k)
	if err != nil {
		return err
	}
	defer q.releaseTurn(k, s)
	var n, bytes int
	err = q.db.Write(ctx, true, func(tx *store.Tx) error {
		n, bytes, err = sqlDeleteWaitingMessages(tx, k)
		return err
	})
	if err == nil {
		q.adjustCounts(k, s, 0, -n, -bytes)
	}
	return err
}
