package delegation

import (
	"context"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/store"
)

// maxReportsToPeer bounds the reports to one peer that are under way at the same time. Each peer has places of
// its own: one that sends no receipts holds up none of the others.
const maxReportsToPeer = 8

// Run acts on what is due until ctx ends: deadlines, delegations whose agent does not come back,
// entries that have been kept long enough. It sleeps until the next of them, and does not wait for the
// disk or a peer. It calls report to report to a peer the end of a delegation that the peer gave, or was
// given.
func (ts *Table) Run(ctx context.Context, report func(context.Context, *Delegation) error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var parts sync.WaitGroup
	defer parts.Wait()
	saver := pace.Saver{What: "the ends of delegations", Changed: ts.unwrittenAdded, Save: ts.saveUnwrittenEnds, Log: ts.log}
	parts.Go(func() { saver.Run(ctx) })
	var reports sync.WaitGroup
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
			ts.handleDueDelegation(t, now, func() bool {
				if ts.reports[t.Peer] >= maxReportsToPeer {
					return false
				}
				ts.reports[t.Peer]++
				reports.Go(func() {
					defer ts.releaseReport(t.Peer)
					ts.reportEnd(ctx, t, report)
				})
				return true
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

// handleDueDelegation does the one thing that is due for t. tell starts a report, unless too many reports
// to that peer are under way. A change that comes with time takes effect at once, and is written when that
// is possible: a restart leads to the same state. The caller holds mu.
func (ts *Table) handleDueDelegation(t *Delegation, now time.Time, tell func() bool) {
	over, forgotten := t.deadlines()
	switch {
	case t.owed && now.Before(forgotten):
		if !tell() {
			t.nextReport = now.Add(firstReportPause)
			return
		}
		t.nextReport = now.Add(t.reportPause) // the next one, unless this one succeeds
		t.reportPause = min(2*t.reportPause, maxReportPause)
	case !now.Before(forgotten):
		if !t.isOverNow() {
			ts.applyEnd(t, expiry)
		}
		ts.remove(t)
		ts.releaseShare(t)
		ts.notifyWaiters(t)
		ts.queueUnwrittenEnd(unwrittenEnd{task: t, drop: true})
	case t.isOverNow():
	case !now.Before(over):
		e := expiry
		if !t.agentAwaySince.IsZero() {
			e = newLostEnding(t)
		}
		ts.applyEnd(t, e)
		ts.queueUnwrittenEnd(unwrittenEnd{task: t, ending: e})
	case !t.ending && t.unwanted:
		t.ending = true // until that is on disk
		ts.queueUnwrittenEnd(unwrittenEnd{task: t, ending: newUnwantedEnding()})
	case !t.ending && !t.agentAwaySince.IsZero() && t.Deadline.IsZero():
		t.ending = true // until that is on disk
		ts.queueUnwrittenEnd(unwrittenEnd{task: t, ending: newLostEnding(t)})
	}
}

// releaseReport gives back a place of a report to a peer.
func (ts *Table) releaseReport(peer identity.ID) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.reports[peer]--; ts.reports[peer] == 0 {
		delete(ts.reports, peer)
	}
}

// expiry is the end of a delegation whose time is over.
var expiry = Ending{State: client.TaskExpired, Outcome: "the deadline passed"}

// reportEnd reports the end of a delegation to the peer that gave it, or that has it. It marks the end as
// reported if the peer has it or does not want it.
func (ts *Table) reportEnd(ctx context.Context, t *Delegation, report func(context.Context, *Delegation) error) {
	if err := report(ctx, t); err != nil {
		return // retry is set
	}
	ts.mu.Lock()
	t.owed = false
	ts.notifyWaiters(t)
	ts.mu.Unlock()
	// A crash before this is on disk only repeats the report, under the same id.
	_ = ts.db.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error { return markEndReported(tx, t.Row) })
}

// How long an entry is kept (protocol, section 4).
const (
	keptAfterDeadline   = time.Hour
	keptWithoutDeadline = 24 * time.Hour
)

// deadlines returns when the time of an open delegation is over, and when its entry is dropped.
func (t *Delegation) deadlines() (over, forgotten time.Time) {
	if t.Deadline.IsZero() {
		end := t.Created.Add(keptWithoutDeadline)
		return end, end
	}
	return t.Deadline, t.Deadline.Add(keptAfterDeadline)
}

// nextDue returns when the clock has to act on t next.
func (t *Delegation) nextDue() time.Time {
	over, forgotten := t.deadlines()
	switch {
	case t.owed && t.nextReport.Before(forgotten):
		return t.nextReport
	case t.isOverNow():
		return forgotten
	case t.ending && !t.Deadline.IsZero():
		return over // that passes, whatever is being written
	case t.ending:
		return forgotten
	case t.unwanted:
		return t.Created // at once
	case !t.agentAwaySince.IsZero():
		return t.awaitedUntil()
	}
	return over
}

// awaitedUntil returns when a delegation whose agent is away stops waiting for it. The caller holds Table.mu.
func (t *Delegation) awaitedUntil() time.Time {
	over, _ := t.deadlines()
	if lost := t.agentAwaySince.Add(orphanedFor); t.Deadline.IsZero() && lost.Before(over) {
		return lost
	}
	return over
}
