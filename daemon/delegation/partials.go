package delegation

import (
	"context"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// The pace of the partial results of one delegation (protocol, section 4).
const (
	partialPause  = time.Second / 4 // between two that leave
	partialsTaken = 8               // a second, and so many at once
)

// ErrReplaced: a newer partial result is sent instead of one that waited.
var ErrReplaced = ownwords.New("a newer partial result leaves instead")

// outgoingPartials holds the partial results of a taken delegation that are on their way to
// the peer: one that is being sent, and the newest of those that wait. Guarded by Table.mu.
type outgoingPartials struct {
	next    time.Time     // no partial result leaves before
	sending bool          // one is being sent
	waiting *int          // identifies the one that waits, or nil
	ending  int           // ends that are being sent, or wait until all partial results have left
	changed chan struct{} // closed at the next change of the others, or nil if nobody waits for one
}

// tellWaiters notifies those that wait for a change. The caller holds Table.mu.
func (o *outgoingPartials) tellWaiters() {
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

// awaitChange returns a channel that is closed at the next change. The caller holds Table.mu.
func (o *outgoingPartials) awaitChange() <-chan struct{} {
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.changed
}

// BeginPartial blocks until a partial result of t may be sent: when the one before is with the
// peer, and a quarter of a second after that one left. The caller calls done when the peer has
// it. If another call comes meanwhile, the error of this one is [ErrReplaced]. If ctx ends, the
// error is its cause. It is not_found if the end of the delegation is being sent.
func (ts *Table) BeginPartial(ctx context.Context, t *Delegation) (done func(), err error) {
	me := new(int)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	o := &t.outgoing
	if o.ending > 0 {
		return nil, kinds.Errorf(kinds.NotFound, "ref: the end of the delegation %s is being sent: nothing more is expected", t.ID)
	}
	o.waiting = me
	o.tellWaiters()
	for {
		pause := time.Until(o.next)
		switch {
		case o.waiting != me:
			return nil, ErrReplaced
		case !o.sending && (pause <= 0 || o.ending > 0):
			o.waiting, o.sending, o.next = nil, true, time.Now().Add(partialPause)
			return func() { ts.endPartial(t) }, nil
		}
		changed := o.awaitChange()
		ts.mu.Unlock()
		err := waitFor(ctx, changed, pause)
		ts.mu.Lock()
		if err != nil {
			if o.waiting == me {
				o.waiting = nil
				o.tellWaiters()
			}
			return nil, err
		}
	}
}

// waitFor blocks until something has changed, or a pause that is longer than 0 is over. If ctx
// ends first, it returns the cause.
func waitFor(ctx context.Context, changed <-chan struct{}, pause time.Duration) error {
	var over <-chan time.Time
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-changed:
	case <-over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// endPartial ends the sending of a partial result.
func (ts *Table) endPartial(t *Delegation) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.outgoing.sending = false
	t.outgoing.tellWaiters()
}

// FlushPartials blocks until no partial result of t is on its way, so that the end of the
// delegation may be sent after them: one that waits leaves at once. Until the caller calls done,
// no other one begins. If ctx ends, the error is its cause.
func (ts *Table) FlushPartials(ctx context.Context, t *Delegation) (done func(), err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	o := &t.outgoing
	o.ending++
	o.tellWaiters()
	done = func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		o.ending--
	}
	for o.sending || o.waiting != nil {
		changed := o.awaitChange()
		ts.mu.Unlock()
		err := waitFor(ctx, changed, 0)
		ts.mu.Lock()
		if err != nil {
			o.ending--
			return nil, err
		}
	}
	return done, nil
}

// TakePartial reports whether one more partial result of t may be taken now. If not, retry is
// the time after which it may be.
func (ts *Table) TakePartial(t *Delegation) (retry time.Duration, ok bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.incoming == nil {
		t.incoming = rate.NewLimiter(partialsTaken, partialsTaken)
	}
	now := time.Now()
	if t.incoming.AllowN(now, 1) {
		return 0, true
	}
	missing := 1 - t.incoming.TokensAt(now)
	return time.Duration(math.Ceil(missing/partialsTaken*1000)) * time.Millisecond, false
}
