package openintent

import (
	"container/heap"
	"context"
	"time"

	"github.com/acpd/acpd/openintent/chain"
)

// alarm is when a channel may be due to be closed or purged. It may come too
// early, never too late: a message moves the end of a ttl without touching it.
type alarm struct {
	at chain.Time
	ch *channel
}

type alarms []alarm

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].at < a[j].at }
func (a alarms) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *alarms) Push(x any)        { *a = append(*a, x.(alarm)) }
func (a *alarms) Pop() any {
	last := (*a)[len(*a)-1]
	(*a)[len(*a)-1] = alarm{}
	*a = (*a)[:len(*a)-1]
	return last
}

// due is when the channel is to be looked at next, 0 for never.
func (e *Engine) due(ch *channel) chain.Time {
	switch over := ch.doc.Status == statusClosed || ch.over != 0; {
	case over && e.cfg.Retention >= 0:
		return ch.closed(now()).Add(e.cfg.Retention)
	case !over && ch.opt.ttl > 0:
		return ch.end()
	}
	return 0
}

// setAlarm is called whenever due may be earlier than it was; the world is locked.
func (e *Engine) setAlarm(ch *channel) {
	at := e.due(ch)
	if at == 0 {
		return
	}
	if len(e.alarms) >= 2*len(e.channels)+spareAlarms {
		e.resetAlarms()
	}
	heap.Push(&e.alarms, alarm{at, ch})
	if e.alarms[0].ch == ch {
		e.wake.Set()
	}
}

// spareAlarms is how many more alarms there may be than two for each channel.
const spareAlarms = 64

// resetAlarms drops the alarms of channels that are gone, and all but one of each other,
// which would be kept until they are due, for years maybe. The world is locked.
func (e *Engine) resetAlarms() {
	e.alarms = nil
	for _, ch := range e.channels {
		if at := e.due(ch); at != 0 {
			e.alarms = append(e.alarms, alarm{at, ch})
		}
	}
	heap.Init(&e.alarms)
}

// retryAlarm is how long a channel that could not be closed is left alone.
const retryAlarm = 10 * time.Second

// idle is how long what has nothing to do waits, unless it is woken.
const idle = time.Hour

// again runs do now, whenever it is woken, and when as long has passed as do says, until
// ctx ends.
func again(ctx context.Context, woken <-chan struct{}, do func() (wait time.Duration)) {
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

func (e *Engine) runAlarms(ctx context.Context) {
	again(ctx, e.wake, func() time.Duration {
		for ctx.Err() == nil {
			ch, wait := e.nextAlarm()
			if ch == nil {
				return wait
			}
			if err := e.closeExpired(ctx, ch); err != nil && ctx.Err() == nil {
				e.cfg.Log.Error("openintent: closing a channel failed", "channel", ch.id, "error", err)
				e.locked(func() { heap.Push(&e.alarms, alarm{now().Add(retryAlarm), ch}) })
			}
		}
		return idle
	})
}

// nextAlarm returns a channel that is due, or how long none is.
func (e *Engine) nextAlarm() (*channel, time.Duration) {
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
		switch due := e.due(next.ch); {
		case due == 0:
		case due > at:
			heap.Push(&e.alarms, alarm{due, next.ch})
		default:
			return next.ch, 0
		}
	}
	return nil, idle
}
