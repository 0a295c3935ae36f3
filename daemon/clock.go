package daemon

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// reporters bounds the errors that are told at the same time.
const reporters = 8

// run acts on what is due until ctx ends: deadlines, tasks whose agent does not
// come back, entries that have lived long enough. It sleeps until the next of
// them, and waits for no disk and no peer. report tells a peer how a task of its own
// ended.
func (ts *tasks) run(ctx context.Context, report func(context.Context, *task) error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { ts.late.run(ctx, ts) })
	var reports errgroup.Group
	reports.SetLimit(reporters)
	defer reports.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ts.wake:
		case <-timer.C:
		}
		now := time.Now()
		var due []*task
		ts.mu.Lock()
		var next time.Time
		for _, t := range ts.table {
			switch at := t.due(); {
			case !at.After(now):
				due = append(due, t)
			case next.IsZero() || at.Before(next):
				next = at
			}
		}
		ts.next = next
		for _, t := range due {
			ts.act(t, now, func() bool {
				return reports.TryGo(func() error { ts.tell(ctx, t, report); return nil })
			})
		}
		ts.mu.Unlock()
		switch {
		case len(due) > 0:
			timer.Reset(0) // acting changed what is next
		case next.IsZero():
			timer.Stop()
		default:
			timer.Reset(time.Until(next))
		}
	}
}

// act does the one thing that is due for t; tell starts a report unless too many
// are under way. What passes with time is so at once, and written when it can be: a
// restart finds the same. The caller holds mu.
func (ts *tasks) act(t *task, now time.Time, tell func() bool) {
	over, forgotten := t.expires()
	switch {
	case t.owed && now.Before(forgotten):
		if !tell() {
			t.retry = now.Add(firstReport)
			return
		}
		t.retry = now.Add(t.pause) // the next one, unless this one succeeds
		t.pause = min(2*t.pause, slowestReport)
	case !now.Before(forgotten):
		if !t.final() {
			ts.settle(t, expired)
		}
		ts.remove(t)
		ts.unshare(t)
		ts.change(t)
		ts.late.add(record{task: t, drop: true})
	case t.final():
	case !now.Before(over):
		e := expired
		if !t.alone.IsZero() {
			e = lostBy(t)
		}
		ts.settle(t, e)
		ts.late.add(record{task: t, ending: e})
	case !t.ending && !t.alone.IsZero() && t.deadline.IsZero():
		t.ending = true // until that is on disk
		ts.late.add(record{task: t, ending: lostBy(t)})
	}
}

// lostBy is how a task ends whose agent has not come back.
func lostBy(t *task) ending {
	lost := kinds.Errorf(kinds.Internal, "agent %s went away while it worked on this and did not come back: delegate it again", t.agent)
	return ending{state: client.TaskFailed, id: wire.NewMessageID(), outcome: lost.Message, payload: kinds.Encode(lost), owed: t.reports}
}

// expired is how a task ends whose time is over.
var expired = ending{state: client.TaskExpired, outcome: "the deadline passed"}

// tell reports the end of a task to its owner and marks it as told when the owner
// has taken it, or does not want it.
func (ts *tasks) tell(ctx context.Context, t *task, report func(context.Context, *task) error) {
	if err := report(ctx, t); err != nil {
		return // retry is set
	}
	ts.mu.Lock()
	t.owed = false
	ts.change(t)
	ts.mu.Unlock()
	// A crash before this is on disk only repeats the report, under the same id.
	_ = ts.db.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error { return sqlPaid(tx, t.row) })
}

// attend looks whether an agent of that name is attached now. While none is, the
// time runs in which it has to come back for its tasks. It is called after each
// change of that, so the last call sees how things are.
func (ts *tasks) attend(name string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var alone time.Time
	if ts.agents.AgentNamed(name) == nil {
		alone = time.Now()
	}
	for _, t := range ts.table {
		if t.direction != client.Taken || t.agent != name || t.final() || t.alone.IsZero() == alone.IsZero() {
			continue
		}
		t.alone = alone
		ts.change(t)
	}
}
