package openintent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// DeleteChannel closes a channel and deletes it with its messages.
func (e *Engine) DeleteChannel(c *Call, id string) (object.ClosedChannel, error) {
	ch, err := e.writeIfManager(c, id, true, func(t *tx, ch *channelRecord) error {
		if err := t.closeChannel(ch, t.now); err != nil {
			return err
		}
		return t.purgeChannel(ch)
	})
	if err != nil {
		return object.ClosedChannel{}, err
	}
	return object.ClosedChannel{Status: object.StatusClosed, ChannelID: ch.id}, nil
}

// closeChannel closes a channel, whose open requests expire with it. Closing it twice changes
// nothing.
func (t *tx) closeChannel(ch *channelRecord, at chain.Time) error {
	if ch.doc.Status == object.StatusClosed {
		return nil
	}
	doc := ch.doc
	doc.Status, doc.ClosedAt = object.StatusClosed, at
	if err := t.saveChannel(ch, doc); err != nil {
		return err
	}
	t.e.withLock(func() {
		set(t, &ch.doc, doc)
		set(t, &ch.open, nil)
		t.setAlarm(ch)
	})
	t.wakeChannelWaiters(ch)
	return nil
}

// closeChannelsWhere closes those channels of the intent that end with the intent or a task. That
// they are closed follows from what has ended, so nothing is written for them.
func (t *tx) closeChannelsWhere(in *intentRecord, at chain.Time, concerns func(*channelRecord) bool) {
	for _, ch := range in.channels {
		if !ch.isOpen(t.now) || !concerns(ch) {
			continue
		}
		t.e.withLock(func() {
			set(t, &ch.over, at)
			set(t, &ch.open, nil)
			t.setAlarm(ch)
		})
		t.wakeChannelWaiters(ch)
	}
}

// belongsToTask reports whether the channel ends with the task.
func (ch *channelRecord) belongsToTask(id string) bool {
	return ch.doc.TaskID != nil && *ch.doc.TaskID == id
}

// wakeChannelWaiters wakes, after the commit, all that wait for something in the channel.
func (t *tx) wakeChannelWaiters(ch *channelRecord) {
	t.e.mu.RLock() // the end of an ask changes asks outside of writes
	defer t.e.mu.RUnlock()
	t.wake = append(t.wake, &ch.bell)
	for _, a := range ch.asks {
		t.wake = append(t.wake, &a.bell)
	}
}

// purgeChannel removes a closed channel. Its messages leave the store later.
func (t *tx) purgeChannel(ch *channelRecord) error {
	// The feed's last number may go with the channel.
	if err := errors.Join(t.execute("INSERT INTO openintent_grave (channel) VALUES (?)", ch.row), t.saveFeedNumber()); err != nil {
		return err
	}
	t.e.withLock(func() {
		t.setAlarm(ch) // for an undo
		drop(t, t.e.channels, ch.id)
		t.adjustMemberCounts(ch, -1)
		t.adjustCreatedCounts(ch.doc.Home, -1, 0, -ch.doc.Size())
		set(t, &ch.in.channels, slices.DeleteFunc(slices.Clone(ch.in.channels), func(c *channelRecord) bool { return c == ch }))
		set(t, &t.e.graves, append(t.e.graves, grave{ch.row, ch.doc.Home}))
		keep(t, &ch.doc)
		ch.doc.Members, ch.doc.Options = nil, nil // messages in memory outlive it
		ch.recent, ch.dropped = nil, t.now        // if the write is undone, its messages are only in the store
	})
	t.wakeChannelWaiters(ch)
	t.buried = true
	return nil
}

// retention is how long a closed channel stays readable.
const retention = 24 * time.Hour

// closeOrPurgeChannel closes or removes the channel if it is time.
func (e *Engine) closeOrPurgeChannel(ctx context.Context, ch *channelRecord) error {
	return e.runTransaction(ctx, ch.needsDurableWrites(e), func(t *tx) error {
		switch {
		case e.channels[ch.id] != ch:
		case !ch.isOpen(t.now) && ch.closedAt(t.now).Add(retention) <= t.now:
			return t.purgeChannel(ch)
		case ch.doc.Status == object.StatusOpen && ch.over == 0 && ch.isTTLOver(t.now):
			return t.closeChannel(ch, ch.ttlEnd())
		default: // it got a message after its alarm was taken
			e.withLock(func() { t.setAlarm(ch) })
		}
		return nil
	})
}

// saveFeedNumber writes the last number of the feed, because the row that has it may be removed.
// The number must not be given out again, because readers resume after it.
func (t *tx) saveFeedNumber() error {
	return t.execute("INSERT INTO openintent_feed (one, last) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET last = excluded.last", t.e.next-1)
}
