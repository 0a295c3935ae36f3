package openintent

import (
	"container/heap"
	"context"
	"time"

	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// channelAlarm says when a channel may have to be closed or removed. It may come too early, because
// messages move the end of a ttl without touching it, but never too late.
type channelAlarm struct {
	at chain.Time
	ch *channelRecord
}

// channelAlarms has the alarms of all channels. The engine's lock guards it.
type channelAlarms struct {
	world *world
	heap  alarmHeap
	wake  pace.Signal // set when an alarm is earlier than all others
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

// timeFor returns when the channel is to be closed or removed, 0 for never.
func (a *channelAlarms) timeFor(ch *channelRecord) chain.Time {
	switch over := ch.doc.Status == object.StatusClosed || ch.over != 0; {
	case over:
		return ch.closedAt(now()).Add(retention)
	case !over && ch.opt.TTL > 0:
		return ch.ttlEnd()
	}
	return 0
}

// set sets the channel's alarm. It is called whenever timeFor may be earlier
// than it was. The world is locked.
func (a *channelAlarms) set(ch *channelRecord) {
	at := a.timeFor(ch)
	if at == 0 {
		return
	}
	if len(a.heap) >= 2*len(a.world.channels)+spareAlarms {
		a.dropStale()
	}
	heap.Push(&a.heap, channelAlarm{at, ch})
	if a.heap[0].ch == ch {
		a.wake.Set()
	}
}

// spareAlarms may be set in addition to two for each channel.
const spareAlarms = 64

// dropStale drops the alarms of channels that are gone, and all but one of each other
// channel. They would be kept until they are due, which may be years. The world is locked.
func (a *channelAlarms) dropStale() {
	a.heap = nil
	for _, ch := range a.world.channels {
		if at := a.timeFor(ch); at != 0 {
			a.heap = append(a.heap, channelAlarm{at, ch})
		}
	}
	heap.Init(&a.heap)
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
	runRepeatedly(ctx, e.alarms.wake, func() time.Duration {
		for ctx.Err() == nil {
			var ch *channelRecord
			var wait time.Duration
			e.withLock(func() { ch, wait = e.alarms.popDue(now()) })
			if ch == nil {
				return wait
			}
			if err := e.closeOrPurgeChannel(ctx, ch); err != nil && ctx.Err() == nil {
				e.cfg.Log.Error("openintent: closing a channel failed", "channel", ch.id, "error", err)
				e.withLock(func() { heap.Push(&e.alarms.heap, channelAlarm{now().Add(retryAlarm), ch}) })
			}
		}
		return idle
	})
}

// popDue returns a channel that is due at a time, or else the time until one is.
func (a *channelAlarms) popDue(at chain.Time) (*channelRecord, time.Duration) {
	for len(a.heap) > 0 {
		next := a.heap[0]
		if next.at > at {
			return nil, next.at.Sub(at)
		}
		heap.Pop(&a.heap)
		if a.world.channels[next.ch.id] != next.ch {
			continue
		}
		switch due := a.timeFor(next.ch); {
		case due == 0:
		case due > at:
			heap.Push(&a.heap, channelAlarm{due, next.ch})
		default:
			return next.ch, 0
		}
	}
	return nil, idle
}
