package transfer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// reportAll tells a peer what is consumed of its mail, and how the agents are that
// live here and have to do with it.
func (c *Carrier) reportAll(ctx context.Context, k *courier) {
	var pause time.Duration // since the peer does not take reports, or the ledger does not give them
	later := func() {
		pause = min(max(2*pause, firstPause), longestRetry)
		pauseFor(ctx, jitter(pause))
	}
	for ctx.Err() == nil {
		c.mu.Lock()
		wait := time.Until(k.until)
		var all []*arrival
		if wait <= 0 {
			all, k.reports = append(k.reports, k.dueAlone(time.Now())...), nil
			k.telling = true
		}
		c.mu.Unlock()
		if wait > 0 {
			rest(ctx, k.report, wait)
			continue
		}
		if len(all) == 0 {
			var err error
			if all, err = c.remember(ctx, k); err != nil {
				c.mu.Lock()
				k.telling = false // it is untold
				c.mu.Unlock()
				later()
				continue
			}
		}
		left := c.tell(ctx, k, all)
		c.mu.Lock()
		k.reports, k.telling = append(k.reports, left...), false // the next round begins with others
		more := k.untold && len(k.reports) == 0
		wait = max(time.Until(k.until), 0)
		next := k.nextAlone()
		c.mu.Unlock()
		if len(left) < len(all) {
			pause = 0
		}
		switch {
		case len(left) == 0:
			c.greet(ctx, k)
		case wait == 0: // it says that it cannot take them now
			later()
			continue
		}
		if !more {
			if wait == 0 {
				wait = next
			}
			rest(ctx, k.report, wait)
		}
	}
}

// maxAlone bounds the reports that wait alone: where a peer does not take so many, all
// wait with them. The ledger is read for more than that at once, so that it always gives
// some that do not wait.
const maxAlone = maxUntold / 2

// putOff has a report that the peer does not take yet wait alone, and reports whether it
// does. The caller holds Carrier.mu.
func (k *courier) putOff(a *arrival) bool {
	if len(k.alone) == maxAlone {
		return false
	}
	a.due = time.Now().Add(jitter(min(firstPause<<min(a.tries, 10), longestRetry)))
	a.tries++
	k.alone[a.key] = a
	return true
}

// dueAlone takes the reports that have waited long enough. The caller holds Carrier.mu.
func (k *courier) dueAlone(now time.Time) (all []*arrival) {
	for key, a := range k.alone {
		if !a.due.After(now) {
			all = append(all, a)
			delete(k.alone, key)
		}
	}
	return all
}

// nextAlone is how long the next of them has to wait, 0 if there is none. The caller
// holds Carrier.mu.
func (k *courier) nextAlone() (wait time.Duration) {
	for _, a := range k.alone {
		if left := max(time.Until(a.due), time.Millisecond); wait == 0 || left < wait {
			wait = left
		}
	}
	return wait
}

// pauseFor waits for d, whatever happens meanwhile but the end of ctx.
func pauseFor(ctx context.Context, d time.Duration) { rest(ctx, nil, d) }

// remember returns what the ledger has to be told to a peer, some of it.
func (c *Carrier) remember(ctx context.Context, k *courier) (all []*arrival, err error) {
	c.mu.Lock()
	untold := k.untold
	k.untold = false
	c.mu.Unlock()
	if !untold {
		return nil, nil
	}
	err = c.consult(ctx, func(tx *store.Tx) (err error) {
		all, err = sqlUntold(tx, k.peer, maxUntold)
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || len(all) == maxUntold {
		k.untold = true
	}
	return slices.DeleteFunc(all, func(a *arrival) bool { return k.alone[a.key] != nil }), err
}

// tell reports what is consumed and returns what could not be reported: after the first
// that the peer does not take it is asked to take no further ones.
func (c *Carrier) tell(ctx context.Context, k *courier, all []*arrival) (left []*arrival) {
	var (
		mu    sync.Mutex // guards left
		tasks sync.WaitGroup
		slots = make(chan struct{}, maxReports)
	)
	for i, a := range all {
		slots <- struct{}{}
		mu.Lock()
		enough := len(left) > 0
		mu.Unlock()
		if enough {
			tasks.Wait()
			return append(slices.Clone(all[i:]), left...)
		}
		tasks.Go(func() {
			defer func() { <-slots }()
			if c.tellOf(ctx, k, a) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			left = append(left, a)
		})
	}
	tasks.Wait()
	return left
}

// tellOf reports one message, and reports whether that is over, or waits alone.
func (c *Carrier) tellOf(ctx context.Context, k *courier, a *arrival) bool {
	c.mu.Lock()
	resting := time.Now().Before(k.until)
	c.mu.Unlock()
	if resting || ctx.Err() != nil {
		return false
	}
	reply, err := c.ask(ctx, k.peer, &wire.MailRequest{Op: wire.MailConsumed, Project: a.key.project, Agent: a.key.agent, File: a.key.file, Hash: a.key.hash})
	switch unreached, ok := errors.AsType[*unreached](err); {
	case ok:
		c.mu.Lock()
		defer c.mu.Unlock()
		k.lost(unreached.cause)
		return false
	case err == nil && reply.Result == wire.MailRetry && reply.Scope == wire.MailScopeMessage:
		c.mu.Lock()
		defer c.mu.Unlock()
		return k.putOff(a)
	case err != nil || reply.Result == wire.MailRetry:
		return false
	case reply.Result == wire.MailRefused:
		c.cfg.Log.Debug("mail: the sender does not want to hear what became of a message", "peer", k.peer.Label(), "file", a.key.file, "code", reply.Code)
	}
	a.state = reported
	// What is not written would be told again and again; so it comes later.
	return c.record(ctx, func(tx *store.Tx) error { return sqlProceed(tx, a) }) == nil
}
