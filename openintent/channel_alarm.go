package openintent

import (
	"container/heap"
	"context"
	"time"

	"github.com/acpd/acpd/openintent/chain"
)

// channelAlarm says when a channel may have to be closed or removed. It may come too early, because
// messages move the end of a ttl without touching it, but never too late.
type channelAlarm struct {
	at chain.Time
	ch *channelRecord
}

type alarmHeap []channelAlarm

func (a alarmHeap) Len() int           { return len(a) }
func (a alarmHeap) Less(i, j int) bool { return a[i].at < a[j].at }
func (a alarmHeap) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *alarmHeap) Push(x any)        { *a = append(*a, x.(channelAlarm)) }
func (a *alarmHeap) Pop() any {
	last := (*a)[len(*a)-1]
	(*a)[len(*a)-1] = channelAlarm{}
	*a = (*a)[:len(*a)-1]
	return last
}

// channelAlarmTime returns when the channel is to be closed or removed, 0 for never.
func (e *Engine) channelAlarmTime(ch *channelRecord) chain.Time {
	switch over := ch.doc.Status == statusClosed || ch.over != 0; {
	case over && e.cfg.Retention >= 0:
		return ch.closedAt(now()).Add(e.cfg.Retention)
	case !over && ch.opt.ttl > 0:
		return ch.ttlEnd()
	}
	return 0
}

// setChannelAlarm sets the channel's alarm. It is called whenever channelAlarmTime may be earlier
// than it was. The world is locked.
func (e *Engine) setChannelAlarm(ch *channelRecord) {
	at := e.channelAlarmTime(ch)
	if at == 0 {
		return
	}
	if len(e.alarms) >= 2*len(e.channels)+spareAlarms {
		e.dropStaleAlarms()
	}
	heap.Push(&e.alarms, channelAlarm{at, ch})
	if e.alarms[0].ch == ch {
		e.wake.Set()
	}
}

// spareAlarms may be set beside two for each channel.
const spareAlarms = 64

// dropStaleAlarms drops the alarms of channels that are gone, and all but one of each other
// channel. They would be kept until they are due, which may be years. The world is locked.
func (e *Engine) dropStaleAlarms() {
	e.alarms = nil
	for _, ch := range e.channels {
		if at := e.channelAlarmTime(ch); at != 0 {
			e.alarms = append(e.alarms, channelAlarm{at, ch})
		}
	}
	heap.Init(&e.alarms)
}

// retryAlarm passes before a failed attempt to close a channel is repeated.
const retryAlarm = 10 * time.Second

// idle is the time between two runs of a loop that has nothing to do and is not woken.
const idle = time.Hour

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

// runChannelAlarms closes and removes channels when their alarms are due, until ctx ends.
func (e *Engine) runChannelAlarms(ctx context.Context) {
	runRepeatedly(ctx, e.wake, func() time.Duration {
		for ctx.Err() == nil {
			ch, wait := e.popDueChannel()
			if ch == nil {
				return wait
			}
			if err := e.closeOrPurgeChannel(ctx, ch); err != nil && ctx.Err() == nil {
				e.cfg.Log.Error("openintent: closing a channel failed", "channel", ch.id, "error", err)
				e.withLock(func() { heap.Push(&e.alarms, channelAlarm{now().Add(retryAlarm), ch}) })
			}
		}
		return idle
	})
}

// popDueChannel returns a channel that is due, or else the time until one is.
func (e *Engine) popDueChannel() (*channelRecord, time.Duration) {
	at := now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.alarms) > 0 {
		next := e.alarms[0]
		if next.at > at {
			return nil, next.at.Sub(at)
		}
		heap.Pop(&e.alarms)
		if e.channels[next.ch.id] != next.ch {
			continue
		}
		switch due := e.channelAlarmTime(next.ch); {
		case due == 0:
		case due > at:
			heap.Push(&e.alarms, channelAlarm{due, next.ch})
		default:
			return next.ch, 0
		}
	}
	return nil, idle
}
