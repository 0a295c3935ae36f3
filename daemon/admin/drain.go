package admin

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
)

const (
	usualDrainTime = 10 * time.Minute
	drainPause     = 100 * time.Millisecond // between two looks at what is open
	hangUpTime     = time.Second            // for whoever has waited to read the outcome
)

// Drain is how a daemon ends. First it takes no new work until its present work is over. Then it ends. A
// daemon that gets a signal ends without the first step.
type Drain struct {
	Agents *registry.Registry
	Log    *slog.Logger

	began    chan struct{} // closed when it begins
	over     chan struct{} // closed when nothing is open, or the time is over
	leaving  chan struct{} // closed when the daemon ends
	isEnding atomic.Bool   // leaving is closed
	calls    atomic.Int64  // to peers, under way, and files
	waiting  sync.WaitGroup

	mu    sync.Mutex // guards what follows
	until time.Time  // zero if it has not begun
	ended bool
	left  []client.OpenWork // what was open when the time was over
}

// NewDrain returns a drain that has not begun.
func NewDrain(agents *registry.Registry, log *slog.Logger) *Drain {
	return &Drain{Agents: agents, Log: log, began: make(chan struct{}), over: make(chan struct{}), leaving: make(chan struct{})}
}

// Methods returns the method that begins a drain.
func (x *Drain) Methods() map[string]local.Method {
	return map[string]local.Method{client.MethodDrain: {Serve: x.serve}}
}

// Began and Ended count the calls to peers that are under way.
func (x *Drain) Began(p *peer.Passing) { x.addCall(p, 1) }
func (x *Drain) Ended(p *peer.Passing) { x.addCall(p, -1) }

func (x *Drain) addCall(p *peer.Passing, n int64) {
	if !p.Inbound {
		x.calls.Add(n)
	}
}

// Hold makes a drain wait for a file that is on its way until release is called.
func (x *Drain) Hold() (release func()) {
	x.calls.Add(1)
	return func() { x.calls.Add(-1) }
}

// BeginEnd records that the daemon ends: the connections of peers are drained.
func (x *Drain) BeginEnd() {
	if !x.isEnding.Swap(true) {
		close(x.leaving)
	}
}

// IsEnding reports whether the daemon ends.
func (x *Drain) IsEnding() bool { return x.isEnding.Load() }

// Ending returns a channel that is closed when the daemon ends.
func (x *Drain) Ending() <-chan struct{} { return x.leaving }

// IsLeaving reports whether the daemon takes no new work, or ends.
func (x *Drain) IsLeaving() bool { return x.IsEnding() || x.HasBegun() }

// join begins the drain, or gives it another end, and makes the daemon wait until leave is called
// before it ends.
func (x *Drain) join(until time.Time) (leave func()) {
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
func (x *Drain) end(left []client.OpenWork) {
	x.mu.Lock()
	x.left, x.ended = left, true
	close(x.over)
	x.mu.Unlock()
	x.waiting.Wait()
}

// findEnd returns when the drain ends at the latest, and false if it has not begun.
func (x *Drain) findEnd() (until time.Time, begun bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.until, !x.until.IsZero()
}

// HasBegun reports whether the daemon takes no new work.
func (x *Drain) HasBegun() bool {
	select {
	case <-x.began:
		return true
	default:
		return false
	}
}

// CheckTakesWork returns the error that refuses new work of a peer, or nil while the daemon does not
// drain.
func (x *Drain) CheckTakesWork() error {
	if !x.HasBegun() {
		return nil
	}
	e := kinds.Errorf(kinds.Overloaded, "the receiver takes no new work, since it ends when the work that it has is done: try again when it is back")
	e.RetryAfterMS = uint64((10 * time.Second).Milliseconds())
	return e
}

// CheckMayBegin returns the error that refuses new work of a program of this machine, or nil while the
// daemon does not drain. Calls that belong to work under way may begin: those that name a message from which
// they follow, and those of an agent that works on something.
func (x *Drain) CheckMayBegin(s *local.Conn, kind string, h *client.Head) error {
	if !kinds.Has(kind, kinds.Work) || !x.HasBegun() || !h.Parent.IsZero() || x.Agents.CountActive(s.Credential().Name) > 0 {
		return nil
	}
	return kinds.Errorf(kinds.DaemonUnavailable, "%s: the daemon takes no new work, since it ends when the work that it has is done: try again when it is back", kind)
}

// listOpenWork returns what a drain waits for. Delegations of agents that are not attached are left
// to the next start.
func (x *Drain) listOpenWork() []client.OpenWork {
	open := []client.OpenWork{}
	for _, a := range x.Agents.ListAgents() {
		if a.Active > 0 {
			open = append(open, client.OpenWork{Agent: a.Name, Count: a.Active})
		}
	}
	if n := x.calls.Load(); n > 0 {
		open = append(open, client.OpenWork{Count: int(n)})
	}
	return open
}

// Describe returns the drain that is under way. It returns nil before a drain begins and once the daemon ends.
func (x *Drain) Describe() *client.Drain {
	until, begun := x.findEnd()
	if !begun || x.IsEnding() {
		return nil
	}
	return &client.Drain{Until: until.UTC(), Open: x.listOpenWork()}
}

// Run waits until a drain has begun and is over, and then calls end. Callers that wait for the drain get
// their answers before that. Run returns earlier if ctx ends.
func (x *Drain) Run(ctx context.Context, end func()) error {
	select {
	case <-ctx.Done():
		return nil
	case <-x.began:
	}
	until, _ := x.findEnd()
	x.Log.Info("draining: no new work is taken", "until", until.UTC())
	left := x.awaitIdle(ctx)
	if ctx.Err() == nil {
		x.end(left)
		end()
	}
	return nil
}

// awaitIdle returns the work that is still open when the drain is over, or nothing. It returns earlier if ctx
// ends.
func (x *Drain) awaitIdle(ctx context.Context) (open []client.OpenWork) {
	look := time.NewTicker(drainPause)
	defer look.Stop()
	for quiet := 0; quiet < 2; { // a result is sent a moment after its agent is done
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		if open = x.listOpenWork(); len(open) == 0 {
			quiet++
			continue
		}
		quiet = 0
		if until, _ := x.findEnd(); time.Now().After(until) {
			x.Log.Warn("draining: the time is over", "open", len(open))
			return open
		}
	}
	return nil
}

// serve begins a drain and answers when it is over. It waits until the caller has hung up, for
// hangUpTime at most, because the daemon then closes all connections.
func (x *Drain) serve(ctx context.Context, s *local.Conn, r *jsonrpc.Request) (any, error) {
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
	defer x.join(time.Now().Add(timeout))()
	select {
	case <-ctx.Done():
		return nil, kinds.NewErrorFromCause(context.Cause(ctx))
	case <-x.over:
	}
	err := r.Respond(&client.Drained{AllEnded: len(x.left) == 0, Open: append([]client.OpenWork{}, x.left...)})
	hangup := time.NewTimer(hangUpTime)
	defer hangup.Stop()
	select {
	case <-s.Conn.Done():
	case <-ctx.Done():
	case <-hangup.C:
	}
	return nil, err
}
