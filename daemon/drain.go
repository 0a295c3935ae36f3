package daemon

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
)

const (
	usualDrainTime = 10 * time.Minute
	drainPause     = 100 * time.Millisecond // between two looks at what is open
	hangUpTime     = time.Second            // for whoever has waited to read the outcome
)

// drain is the time in which the daemon takes no new work, before it ends. A daemon that is told to
// end by a signal has none.
type drain struct {
	began   chan struct{} // closed when it begins
	over    chan struct{} // closed when nothing is open, or the time is over
	calls   atomic.Int64  // to peers, under way
	waiting sync.WaitGroup

	mu    sync.Mutex // guards what follows
	until time.Time  // zero: it has not begun
	ended bool
	left  []client.OpenWork // what was open when the time was over
}

// Began and Ended count the calls to peers that are under way.
func (x *drain) Began(p *peer.Passing) { x.addCall(p, 1) }
func (x *drain) Ended(p *peer.Passing) { x.addCall(p, -1) }

func (x *drain) addCall(p *peer.Passing, n int64) {
	if !p.Inbound {
		x.calls.Add(n)
	}
}

func newDrain() *drain { return &drain{began: make(chan struct{}), over: make(chan struct{})} }

// join begins the drain, or gives it another end, and makes the daemon wait until leave is called
// before it ends.
func (x *drain) join(until time.Time) (leave func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return func() {}
	}
	if x.until.IsZero() {
		close(x.began)
	}
	x.until = until
	x.waiting.Add(1)
	return x.waiting.Done
}

// end ends the drain, and returns when all that have joined it have left.
func (x *drain) end(left []client.OpenWork) {
	x.mu.Lock()
	x.left, x.ended = left, true
	close(x.over)
	x.mu.Unlock()
	x.waiting.Wait()
}

// findEnd returns when the drain ends at the latest, and false if it has not begun.
func (x *drain) findEnd() (until time.Time, begun bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.until, !x.until.IsZero()
}

func (x *drain) hasBegun() bool {
	select {
	case <-x.began:
		return true
	default:
		return false
	}
}

// checkTakesWork returns the error that refuses new work of a peer, nil while the daemon does not
// drain.
func (x *drain) checkTakesWork() error {
	if !x.hasBegun() {
		return nil
	}
	e := kinds.Errorf(kinds.Overloaded, "the receiver takes no new work, since it ends when the work that it has is done: try again when it is back")
	e.RetryAfterMS = uint64((10 * time.Second).Milliseconds())
	return e
}

// checkMayBegin returns the error that refuses new work of a program of this machine, nil while the
// daemon does not drain. What belongs to work that is under way may begin: calls that name a
// message from which they follow, and those of an agent that works on something.
func (d *Daemon) checkMayBegin(s *local.Conn, kind string, h *client.Head) error {
	if !kinds.Has(kind, kinds.Work) || !d.drain.hasBegun() || !h.Parent.IsZero() || d.agents.CountActive(s.Credential().Name) > 0 {
		return nil
	}
	return kinds.Errorf(kinds.DaemonUnavailable, "%s: the daemon takes no new work, since it ends when the work that it has is done: try again when it is back", kind)
}

// listOpenWork returns what a drain waits for. Delegations of agents that are not attached are left
// to the next start.
func (d *Daemon) listOpenWork() []client.OpenWork {
	open := []client.OpenWork{}
	for _, a := range d.agents.ListAgents() {
		if a.Active > 0 {
			open = append(open, client.OpenWork{Agent: a.Name, Count: a.Active})
		}
	}
	if n := d.drain.calls.Load(); n > 0 {
		open = append(open, client.OpenWork{Count: int(n)})
	}
	return open
}

// describeDrain returns the drain that is under way, nil if none is.
func (d *Daemon) describeDrain() *client.Drain {
	until, begun := d.drain.findEnd()
	if !begun || d.draining.Load() {
		return nil
	}
	return &client.Drain{Until: until.UTC(), Open: d.listOpenWork()}
}

// runDrain waits until a drain has begun and is over, and calls end then. Whoever waits for it has
// been answered before. It returns earlier if ctx ends.
func (d *Daemon) runDrain(ctx context.Context, end func()) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.drain.began:
	}
	until, _ := d.drain.findEnd()
	d.log.Info("draining: no new work is taken", "until", until.UTC())
	left := d.awaitIdle(ctx)
	if ctx.Err() == nil {
		d.drain.end(left)
		end()
	}
	return nil
}

// awaitIdle returns what is open when the drain is over, none if all has ended before. It returns
// earlier if ctx ends.
func (d *Daemon) awaitIdle(ctx context.Context) (open []client.OpenWork) {
	look := time.NewTicker(drainPause)
	defer look.Stop()
	for quiet := 0; quiet < 2; { // a result is sent a moment after its agent is done
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		if open = d.listOpenWork(); len(open) == 0 {
			quiet++
			continue
		}
		quiet = 0
		if until, _ := d.drain.findEnd(); time.Now().After(until) {
			d.log.Warn("draining: the time is over", "open", len(open))
			return open
		}
	}
	return nil
}

// serveDrain begins a drain and answers when it is over. It waits until the caller has hung up, for
// hangUpTime at most, because the daemon then closes all connections.
func (d *Daemon) serveDrain(ctx context.Context, s *local.Conn, r *jsonrpc.Request) (any, error) {
	p := new(client.DrainParams)
	if err := r.ReadParams(p); err != nil {
		return nil, err
	}
	if p.TimeoutMS > uint64(client.MaxDrain.Milliseconds()) {
		return nil, kinds.Errorf(kinds.Invalid, "timeout_ms: %d: at most %d, which is %s", p.TimeoutMS, client.MaxDrain.Milliseconds(), client.MaxDrain)
	}
	timeout := usualDrainTime
	if p.TimeoutMS > 0 {
		timeout = time.Duration(p.TimeoutMS) * time.Millisecond
	}
	defer d.drain.join(time.Now().Add(timeout))()
	select {
	case <-ctx.Done():
		return nil, kinds.NewErrorFromCause(context.Cause(ctx))
	case <-d.drain.over:
	}
	err := r.Respond(&client.Drained{AllEnded: len(d.drain.left) == 0, Open: append([]client.OpenWork{}, d.drain.left...)})
	hangup := time.NewTimer(hangUpTime)
	defer hangup.Stop()
	select {
	case <-s.Conn.Done():
	case <-ctx.Done():
	case <-hangup.C:
	}
	return nil, err
}
