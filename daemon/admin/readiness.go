package admin

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/metrics"
	"github.com/acpd/acpd/store"
)

// readinessWait bounds how long one part may take to show that it works.
const readinessWait = time.Second

// Readiness finds what keeps a daemon from its work. It has the check that is under way, so that
// callers who come meanwhile share it.
type Readiness struct {
	Socket    *local.Socket               // acp.sock of the state directory
	CheckUDP  func(context.Context) error // returns an error unless the UDP socket answers
	Store     *store.DB
	Space     *Space
	Loops     []MovingPart // those that accept local connections and peers
	IsLeaving func() bool  // reports whether the daemon drains
	Leaving   <-chan struct{}
	Calls     *sync.WaitGroup // waits for goroutines that outlive a check

	serving atomic.Bool // all parts have started

	mu    sync.Mutex // guards check
	check *readinessCheck
}

// SetServing records that all parts of the daemon have started.
func (r *Readiness) SetServing() { r.serving.Store(true) }

// readinessCheck is one check of a daemon.
type readinessCheck struct {
	over    chan struct{} // closed when unready is set
	unready []string
}

// Check returns what keeps this daemon from its work, each with the remedy, and
// nothing if it is ready. It is ready if
//   - everything has started, and the daemon does not drain;
//   - its accept loops and the store's writer are not stuck (see [Readiness.listStuckParts]);
//   - acp.sock is in the state directory, and no connection on it had to wait just now;
//   - the UDP socket answers;
//   - no disk is below the floor at which peers are refused.
//
// The status and all other reports of readiness use this check. An agent or a peer cannot make the daemon unready
// by something that it may do without the owner, such as removing a file of the agents' folder. Check blocks for
// readinessWait at most, or until ctx ends; calls share one check.
func (r *Readiness) Check(ctx context.Context) []string {
	r.mu.Lock()
	check := r.check
	if check == nil {
		check = &readinessCheck{over: make(chan struct{})}
		r.check = check
		r.Calls.Go(func() {
			check.unready = r.listUnready(context.WithoutCancel(ctx))
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

// ListFamilies returns the metric of readiness. It blocks as Check does.
func (r *Readiness) ListFamilies(ctx context.Context) []metrics.Family {
	ready := 0
	if len(r.Check(ctx)) == 0 {
		ready = 1
	}
	return []metrics.Family{{Name: "acpd_ready", Type: metrics.Gauge, Help: "1 if /readyz says ready, else 0.", Write: metrics.One(ready)}}
}

func (r *Readiness) listUnready(ctx context.Context) []string {
	const leaving = "acpd is shutting down: start it again when it has ended"
	switch {
	case r.IsLeaving():
		return []string{leaving}
	case !r.serving.Load():
		return []string{"acpd is starting: try again in a moment"}
	}
	var shutdown sync.WaitGroup
	defer shutdown.Wait()
	ctx, cancel := context.WithTimeout(ctx, readinessWait)
	defer cancel()
	shutdown.Go(func() { // which does not wait for loops that have ended
		select {
		case <-r.Leaving:
			cancel()
		case <-ctx.Done():
		}
	})
	var stuck []string
	var answer error
	var checks sync.WaitGroup
	checks.Go(func() { stuck = r.listStuckParts(ctx) })
	checks.Go(func() { answer = r.CheckUDP(ctx) })
	r.Space.Measure(ctx)
	checks.Wait()
	select {
	case <-r.Leaving:
		return []string{leaving}
	default:
	}
	unready := append([]string{}, stuck...)
	for _, err := range append(r.Socket.ListFaults(), answer) {
		if err != nil {
			unready = append(unready, ownwords.Of(err))
		}
	}
	if full := r.Space.DescribeShortage(); full != "" {
		unready = append(unready, full)
	}
	return unready
}

// MovingPart is a loop of the daemon that has to come round again and again.
type MovingPart struct {
	Name       string
	AwaitRound func(context.Context) error // blocks until it has come round, or ctx ends
}

// ListMovingParts returns the store's writer and the loops.
func (r *Readiness) ListMovingParts() []MovingPart {
	return append([]MovingPart{{"the writer of state.db", r.awaitWriter}}, r.Loops...)
}

// listStuckParts returns those of [Readiness.ListMovingParts] that have not come round since it was
// called, each with the remedy. Nothing that a peer or a local program sends keeps it waiting, so a
// part that it names hangs, or its disk does. It blocks until all parts have come round, or until
// ctx ends.
func (r *Readiness) listStuckParts(ctx context.Context) []string {
	parts := r.ListMovingParts()
	errs := make([]error, len(parts))
	var all sync.WaitGroup
	for i, part := range parts {
		all.Go(func() { errs[i] = part.AwaitRound(ctx) })
	}
	all.Wait()
	var stuck []string
	for i, err := range errs {
		if err != nil {
			stuck = append(stuck, fmt.Sprintf("%s does not go on: %v: look at acpd's log and at the disk, and start acpd again", parts[i].Name, err))
		}
	}
	return stuck
}

// awaitWriter blocks until the store's writer has committed an empty transaction, or ctx ends.
func (r *Readiness) awaitWriter(ctx context.Context) error {
	done := make(chan error, 1)
	r.Calls.Go(func() {
		done <- r.Store.Write(ctx, false, func(*store.Tx) error { return nil })
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done(): // the writer heeds ctx only until it begins
		return ctx.Err()
	}
}
