package daemon

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/store"
)

// readinessWait bounds how long one part may take to show that it works.
const readinessWait = time.Second

// readiness has the check that is under way, so that callers who come meanwhile share it.
type readiness struct {
	serving atomic.Bool // Run has started all parts

	mu    sync.Mutex // guards check
	check *readinessCheck
}

// readinessCheck is one check of a daemon.
type readinessCheck struct {
	over    chan struct{} // closed when unready is set
	unready []string
}

// checkReadiness returns what keeps this daemon from its work, each with the remedy, and
// nothing if it is ready. It is ready if
//   - [Daemon.Run] has started everything, and does not drain;
//   - its accept loops and the store's writer go on (see [Daemon.listStuckParts]);
//   - acp.sock lies in the state directory, and no connection on it had to wait just now;
//   - the UDP socket answers;
//   - no disk is below the floor at which peers are refused.
//
// The status and whatever else tells of readiness ask here. Nothing that an agent or a peer
// may do alone, such as removing a file of the agents' folder, makes it unready. It blocks for
// readinessWait at most, or until ctx ends; calls share one check.
func (d *Daemon) checkReadiness(ctx context.Context) []string {
	r := &d.readiness
	r.mu.Lock()
	check := r.check
	if check == nil {
		check = &readinessCheck{over: make(chan struct{})}
		r.check = check
		d.calls.Go(func() {
			check.unready = d.listUnready(context.WithoutCancel(ctx))
			r.mu.Lock()
			r.check = nil
			r.mu.Unlock()
			close(check.over)
		})
	}
	r.mu.Unlock()
	select {
	case <-check.over:
		return check.unready
	case <-ctx.Done():
		return []string{fmt.Sprintf("readiness: not known: %v", ctx.Err())}
	}
}

func (d *Daemon) listUnready(ctx context.Context) []string {
	const leaving = "acpd is shutting down: start it again when it has ended"
	switch {
	case d.draining.Load() || d.drain.hasBegun():
		return []string{leaving}
	case !d.readiness.serving.Load():
		return []string{"acpd is starting: try again in a moment"}
	}
	var shutdown sync.WaitGroup
	defer shutdown.Wait()
	ctx, cancel := context.WithTimeout(ctx, readinessWait)
	defer cancel()
	shutdown.Go(func() { // which does not wait for loops that have ended
		select {
		case <-d.leaving:
			cancel()
		case <-ctx.Done():
		}
	})
	var stuck []string
	var answer error
	var checks sync.WaitGroup
	checks.Go(func() { stuck = d.listStuckParts(ctx) })
	checks.Go(func() { answer = d.node.CheckAnswers(ctx) })
	d.space.Measure(ctx)
	checks.Wait()
	if d.draining.Load() {
		return []string{leaving}
	}
	unready := append([]string{}, stuck...)
	for _, err := range append(d.socket.ListFaults(), answer) {
		if err != nil {
			unready = append(unready, ownwords.Of(err))
		}
	}
	if full := d.space.DescribeShortage(); full != "" {
		unready = append(unready, full)
	}
	return unready
}

// movingPart is a loop of the daemon that has to come round again and again.
type movingPart struct {
	name       string
	awaitRound func(context.Context) error // blocks until it has come round, or ctx ends
}

// listMovingParts returns the loops that accept local connections and peers, and the store's
// writer.
func (d *Daemon) listMovingParts() []movingPart {
	all := []movingPart{
		{"the writer of state.db", d.awaitWriter},
		{"the UDP socket", d.node.AwaitAcceptRound},
		{d.socket.Addr().String(), d.socket.AwaitRound},
		{d.guests.Addr().String(), d.guests.AwaitRound},
	}
	for _, l := range d.channels.accepting {
		all = append(all, movingPart{l.Addr().String(), l.AwaitRound})
	}
	return all
}

// listStuckParts returns those of [Daemon.listMovingParts] that have not come round since it was
// called, each with the remedy. Nothing that a peer or a local program sends keeps it waiting, so a
// part that it names hangs, or its disk does. It blocks until all parts have come round, or until
// ctx ends.
func (d *Daemon) listStuckParts(ctx context.Context) []string {
	parts := d.listMovingParts()
	errs := make([]error, len(parts))
	var all sync.WaitGroup
	for i, part := range parts {
		all.Go(func() { errs[i] = part.awaitRound(ctx) })
	}
	all.Wait()
	var stuck []string
	for i, err := range errs {
		if err != nil {
			stuck = append(stuck, fmt.Sprintf("%s does not go on: %v: look at acpd's log and at the disk, and start acpd again", parts[i].name, err))
		}
	}
	return stuck
}

// awaitWriter blocks until the store's writer has committed an empty transaction, or ctx ends.
func (d *Daemon) awaitWriter(ctx context.Context) error {
	done := make(chan error, 1)
	d.calls.Go(func() {
		done <- d.store.Write(ctx, false, func(*store.Tx) error { return nil })
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done(): // the writer heeds ctx only until it begins
		return ctx.Err()
	}
}
