package delegation

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

// Run acts on what is due until ctx ends: deadlines, tasks whose agent does not
// come back, entries that have lived long enough. It sleeps until the next of
// them, and waits for no disk and no peer. report tells a peer how a task of its own
// ended.
func (ts *Table) Run(ctx context.Context, report func(context.Context, *Delegation) error) error {
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
		var due []*Delegation
		ts.mu.Lock()
		var next time.Time
		for _, t := range ts.table {
			switch at := t.nextDue(); {
			case !at.After(now):
				due = append(due, t)
			case next.IsZero() || at.Before(next):
				next = at
			}
		}
		ts.next = next
		for _, t := range due {
			ts.actOn(t, now, func() bool {
				return reports.TryGo(func() error { ts.reportEnd(ctx, t, report); return nil })
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

// actOn does the one thing that is due for t; tell starts a report unless too many
// are under way. What passes with time is so at once, and written when it can be: a
// restart finds the same. The caller holds mu.
func (ts *Table) actOn(t *Delegation, now time.Time, tell func() bool) {
	over, forgotten := t.deadlines()
	switch {
	case t.owed && now.Before(forgotten):
		if !tell() {
			t.retry = now.Add(firstReport)
			return
		}
		t.retry = now.Add(t.pause) // the next one, unless this one succeeds
		t.pause = min(2*t.pause, slowestReport)
	case !now.Before(forgotten):
		if !t.isFinal() {
			ts.applyEnd(t, endOfTime)
		}
		ts.remove(t)
		ts.giveBackShare(t)
		ts.announceChange(t)
		ts.late.add(lateEnd{task: t, drop: true})
	case t.isFinal():
	case !now.Before(over):
		e := endOfTime
		if !t.aloneSince.IsZero() {
			e = endOfLost(t)
		}
		ts.applyEnd(t, e)
		ts.late.add(lateEnd{task: t, ending: e})
	case !t.ending && !t.aloneSince.IsZero() && t.Deadline.IsZero():
		t.ending = true // until that is on disk
		ts.late.add(lateEnd{task: t, ending: endOfLost(t)})
	}
}

// endOfLost is how a task ends whose agent has not come back.
func endOfLost(t *Delegation) Ending {
	lost := kinds.Errorf(kinds.Internal, "agent %s went away while it worked on this and did not come back: delegate it again", t.Agent)
	return Ending{State: client.TaskFailed, ID: wire.NewMessageID(), Outcome: lost.Message, Payload: kinds.Encode(lost), owed: t.Reports}
}

// endOfTime is how a task ends whose time is over.
var endOfTime = Ending{State: client.TaskExpired, Outcome: "the deadline passed"}

// reportEnd reports the end of a task to its owner and marks it as told when the owner
// has taken it, or does not want it.
func (ts *Table) reportEnd(ctx context.Context, t *Delegation, report func(context.Context, *Delegation) error) {
	if err := report(ctx, t); err != nil {
		return // retry is set
	}
	ts.mu.Lock()
	t.owed = false
	ts.announceChange(t)
	ts.mu.Unlock()
	// A crash before this is on disk only repeats the report, under the same id.
	_ = ts.db.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error { return clearOwed(tx, t.Row) })
}

// CheckAgent looks whether an agent of that name is attached now. While none is, the
// time runs in which it has to come back for its tasks. It is called after each
// change of that, so the last call sees how things are.
func (ts *Table) CheckAgent(name string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var alone time.Time
	if ts.agents.AgentNamed(name) == nil {
		alone = time.Now()
	}
	for _, t := range ts.table {
		if t.Direction != client.Taken || t.Agent != name || t.isFinal() || t.aloneSince.IsZero() == alone.IsZero() {
			continue
		}
		t.aloneSince = alone
		ts.announceChange(t)
	}
}
