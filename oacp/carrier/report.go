package carrier

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
			all, k.reports = k.reports, nil
		}
		c.mu.Unlock()
		if wait > 0 {
			rest(ctx, k.report, wait)
			continue
		}
		if len(all) == 0 {
			var err error
			if all, err = c.remember(ctx, k); err != nil {
				later()
				continue
			}
		}
		left := c.tell(ctx, k, all)
		c.mu.Lock()
		k.reports = append(k.reports, left...) // the next round begins with others
		more := k.untold && len(k.reports) == 0
		wait = max(time.Until(k.until), 0)
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
			rest(ctx, k.report, wait)
		}
	}
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
	if err != nil || len(all) == maxUntold {
		c.mu.Lock()
		defer c.mu.Unlock()
		k.untold = true
	}
	return all, err
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

// tellOf reports one message, and reports whether that is over.
func (c *Carrier) tellOf(ctx context.Context, k *courier, a *arrival) bool {
	c.mu.Lock()
	resting := time.Now().Before(k.until)
	c.mu.Unlock()
	if resting || ctx.Err() != nil {
		return false
	}
	reply, err := c.ask(ctx, k.peer, &wire.MailRequest{Op: wire.MailConsumed, Project: a.key.project, Agent: a.key.agent, File: a.key.file, Hash: a.key.hash})
	var unreached *unreached
	switch {
	case errors.As(err, &unreached):
		c.mu.Lock()
		defer c.mu.Unlock()
		k.lost(unreached.cause)
		return false
	case err != nil || reply.Result == wire.MailRetry:
		return false
	case reply.Result == wire.MailRefused:
		c.cfg.Log.Debug("mail: the sender does not want to hear what became of a message", "peer", k.peer.Label(), "file", a.key.file, "code", reply.Code)
	}
	a.state = reported
	// What is not written would be told again and again; so it comes later.
	return c.record(ctx, func(tx *store.Tx) error { return sqlProceed(tx, a) }) == nil
}
