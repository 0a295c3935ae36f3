package openintent

import (
	"context"
	"time"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// dueAt returns when the channel is to be closed or removed, 0 for never.
func (ch *channelRecord) dueAt(at chain.Time) chain.Time {
	switch over := ch.doc.Status == object.StatusClosed || ch.over != 0; {
	case over:
		return ch.closedAt(at).Add(retention)
	case ch.opt.TTL > 0:
		return ch.ttlEnd()
	}
	return 0
}

const (
	retryAlarm = 10 * time.Second // passes before a failed attempt to close a channel is repeated
	alarmPause = time.Second      // passes between two looks at all channels
	idle       = time.Hour        // passes between two runs of a loop that has nothing to do and is not woken
)

// runRepeatedly runs do at once, whenever it is woken, and after each time that do returns, until
// ctx ends.
func runRepeatedly(ctx context.Context, woken <-chan struct{}, do func() (wait time.Duration)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-woken:
		case <-timer.C:
		}
		timer.Reset(do())
	}
}

// runChannelAlarms closes and removes channels when they are due, until ctx ends. It is woken when
// a channel may be due earlier than before.
func (e *Engine) runChannelAlarms(ctx context.Context) {
	var looked time.Time
	runRepeatedly(ctx, e.alarm, func() time.Duration {
		if early := alarmPause - time.Since(looked); early > 0 {
			return early
		}
		looked = time.Now()
		due, wait := e.listDueChannels(now())
		for _, ch := range due {
			if err := e.closeOrPurgeChannel(ctx, ch); err != nil && ctx.Err() == nil {
				e.cfg.Log.Error("openintent: closing a channel failed", "channel", ch.id, "error", err)
				wait = min(wait, retryAlarm)
			}
		}
		return wait
	})
}

// listDueChannels returns the channels that are due at a time, and the time until the next one is.
func (e *Engine) listDueChannels(at chain.Time) (due []*channelRecord, wait time.Duration) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	wait = idle
	for _, ch := range e.channels {
		switch end := ch.dueAt(at); {
		case end == 0:
		case end <= at:
			due = append(due, ch)
		default:
			wait = min(wait, end.Sub(at))
		}
	}
	return due, wait
}
