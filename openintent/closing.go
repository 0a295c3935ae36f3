package openintent

import (
	"context"
	"slices"

	"github.com/acpd/acpd/openintent/chain"
)

// ClosedChannel says that a channel was closed and deleted.
type ClosedChannel struct {
	Status    string `json:"status"`
	ChannelID string `json:"channel_id"`
}

// DeleteChannel closes a channel and deletes it.
func (e *Engine) DeleteChannel(c *Call, id string) (ClosedChannel, error) {
	ch, err := e.manage(c, id, true, func(t *tx, ch *channel) error {
		if err := t.close(ch, t.now); err != nil {
			return err
		}
		return t.purge(ch)
	})
	if err != nil {
		return ClosedChannel{}, err
	}
	return ClosedChannel{Status: statusClosed, ChannelID: ch.id}, nil
}

// close closes a channel, with which its open requests expire. Closing twice is nothing.
func (t *tx) close(ch *channel, at chain.Time) error {
	if ch.doc.Status == statusClosed {
		return nil
	}
	doc := ch.doc
	doc.Status, doc.ClosedAt = statusClosed, at
	if err := t.saveChannel(ch, doc); err != nil {
		return err
	}
	old, open := ch.doc, ch.open
	t.apply(t.alarmed(ch, step{func() { ch.doc, ch.open = doc, nil }, func() { ch.doc, ch.open = old, open }})...)
	t.rings(ch)
	return nil
}

// end closes those channels of the intent that its end, or that of a task of it, concerns.
// The channels follow from what has ended, so however many they are, nothing is written.
func (t *tx) end(in *intent, at chain.Time, concerns func(*channel) bool) {
	for _, ch := range in.channels {
		if !ch.isOpen(t.now) || !concerns(ch) {
			continue
		}
		open := ch.open
		t.apply(t.alarmed(ch, step{func() { ch.over, ch.open = at, nil }, func() { ch.over, ch.open = 0, open }})...)
		t.rings(ch)
	}
}

// alarmed sets the channel's alarm after some steps, and after these were undone.
func (t *tx) alarmed(ch *channel, steps ...step) []step {
	set := func() { t.e.setAlarm(ch) }
	return slices.Concat([]step{{nil, set}}, steps, []step{{set, nil}})
}

// ofTask reports whether the channel ends with the task.
func (ch *channel) ofTask(id string) bool { return ch.doc.TaskID != nil && *ch.doc.TaskID == id }

// rings wakes who waits for something in the channel, after the commit.
func (t *tx) rings(ch *channel) {
	t.e.mu.RLock() // who stops asking changes asks outside of writes
	defer t.e.mu.RUnlock()
	t.wake = append(t.wake, &ch.bell)
	for _, a := range ch.asks {
		t.wake = append(t.wake, &a.bell)
	}
}

// purge forgets a closed channel and its messages, which leave the store later.
func (t *tx) purge(ch *channel) error {
	if err := t.buryChannel(ch); err != nil {
		return err
	}
	doc, all, graves := ch.doc, ch.in.channels, t.e.graves
	t.apply(
		step{nil, func() { t.e.setAlarm(ch) }},
		step{func() { delete(t.e.channels, ch.id) }, func() { t.e.channels[ch.id] = ch }},
		step{func() { t.e.enlist(ch, -1) }, func() { t.e.enlist(ch, 1) }},
		step{func() { t.e.count(doc.Home, -1, 0, -doc.size()) }, func() { t.e.count(doc.Home, 1, 0, doc.size()) }},
		step{func() {
			ch.in.channels = slices.DeleteFunc(slices.Clone(all), func(c *channel) bool { return c == ch })
		}, func() { ch.in.channels = all }},
		step{func() { t.e.graves = append(graves, grave{ch.row, doc.Home}) }, func() { t.e.graves = graves }},
		step{func() {
			ch.recent = nil
			ch.doc.Members, ch.doc.Options = nil, nil // messages in memory outlive it
		}, func() {
			ch.doc = doc
			ch.dropped = t.now // its messages are in the store alone
		}},
	)
	t.rings(ch)
	t.buried = true
	return nil
}

// closeExpired closes and purges the channel if it is time.
func (e *Engine) closeExpired(ctx context.Context, ch *channel) error {
	return e.write(ctx, ch.durable(e), func(t *tx) error {
		switch {
		case e.channels[ch.id] != ch:
		case !ch.isOpen(t.now) && e.cfg.Retention >= 0 && ch.closed(t.now).Add(e.cfg.Retention) <= t.now:
			return t.purge(ch)
		case ch.doc.Status == statusOpen && ch.over == 0 && ch.expired(t.now):
			return t.close(ch, ch.end())
		}
		return nil
	})
}
