package carrier

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// reportAll tells a peer what is consumed of its mail, and how the agents are that
// live here and have to do with it.
func (c *Carrier) reportAll(ctx context.Context, k *courier) {
	for ctx.Err() == nil {
		c.mu.Lock()
		wait := time.Until(k.until)
		all := k.reports
		if wait <= 0 {
			k.reports = nil
		}
		c.mu.Unlock()
		if wait > 0 {
			rest(ctx, k.report, wait)
			continue
		}
		left := c.tell(ctx, k, all)
		c.mu.Lock()
		k.reports = append(left, k.reports...)
		wait = max(time.Until(k.until), 0)
		if len(left) > 0 && wait == 0 {
			wait = firstPause
		}
		c.mu.Unlock()
		if len(left) == 0 {
			c.greet(ctx, k)
		}
		rest(ctx, k.report, wait)
	}
}

// tell reports what is consumed and returns what could not be reported.
func (c *Carrier) tell(ctx context.Context, k *courier, all []*arrival) (left []*arrival) {
	var (
		mu    sync.Mutex // guards left
		tasks sync.WaitGroup
		slots = make(chan struct{}, maxReports)
	)
	for _, a := range all {
		slots <- struct{}{}
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
	c.record(ctx, func(tx *store.Tx) error { return sqlArrive(tx, a) })
	return true
}
