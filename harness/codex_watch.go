package harness

import (
	"context"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
)

const (
	// terminalPause is between two looks whether the terminal has ended: Codex tells nobody.
	terminalPause = 2 * time.Second
	// noticePause is between a notification and the look that follows it, so that several lead to one.
	noticePause = 50 * time.Millisecond
	// lookPause is between two looks at a thread of which no notification has come.
	lookPause = 30 * time.Second
)

// Watch reports whether the thread can be woken. It has a connection of its own, which hears when
// threads are loaded.
func (c *codex) Watch(ctx context.Context, report func(Presence)) {
	joined, end, err := c.join(ctx)
	if err != nil {
		return
	}
	defer end()
	var last *Presence
	tell := func(p Presence) {
		if last == nil || !isSame(p.Gone, last.Gone) || !isSame(p.Unwakeable, last.Unwakeable) {
			last = &p
			report(p)
		}
	}
	for joined.Err() == nil {
		err := c.watchOnce(joined, tell)
		c.loads.end()
		if joined.Err() == nil {
			tell(Presence{Unwakeable: err})
			pace.Sleep(joined, terminalPause)
		}
	}
}

// isSame reports whether two errors say the same.
func isSame(a, b error) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Error() == b.Error()
}

// watchOnce reports until its connection or ctx ends.
func (c *codex) watchOnce(ctx context.Context, tell func(Presence)) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.close()
	loaded, err := c.listLoaded(ctx, conn)
	if err != nil {
		return err
	}
	c.loads.begin(loaded)
	var view codexView
	due := time.NewTimer(0)
	ticks := time.NewTicker(terminalPause)
	defer ticks.Stop()
	for {
		select {
		case n, ok := <-conn.notices:
			if !ok {
				return c.fail(ErrGone, conn.readCause())
			}
			c.loads.note(&n)
			due.Reset(noticePause)
		case <-c.changed:
			due.Reset(0)
		case <-ticks.C:
			if view.hasEnded() != view.over {
				due.Reset(0)
			}
		case <-due.C:
			var p Presence
			p, view = c.lookAround(ctx, conn, view)
			if ctx.Err() == nil {
				tell(p)
			}
			due.Reset(lookPause)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookAround looks at the thread and its terminal. A terminal that was seen, and that has ended or
// shows another thread, leaves a thread in which nothing runs to nobody.
func (c *codex) lookAround(ctx context.Context, conn *codexConn, before codexView) (Presence, codexView) {
	thread, err := c.findThread(ctx, conn)
	if err != nil {
		return Presence{Unwakeable: err}, before
	}
	view, err := c.look(ctx, conn, thread)
	if err != nil {
		return Presence{Unwakeable: err}, before
	}
	if view.ended == nil {
		view.ended = before.ended
	}
	view.over = view.hasEnded()
	t, err := c.readThread(ctx, conn, thread) // after the terminal, so that a turn that runs by now is seen
	left := view.switched || view.over
	switch {
	case err != nil:
		return Presence{Unwakeable: err}, view
	case t.Status.Type == "notLoaded":
		return Presence{Unwakeable: c.fail(ErrGone, ownwords.New("its thread is closed"))}, view
	case left && t.Status.Type == "active":
		return Presence{Unwakeable: c.fail(ErrUnattended, ownwords.New(view.unseen))}, view
	case left:
		return Presence{Gone: c.fail(ErrUnattended, ownwords.New(view.unseen))}, view
	}
	return Presence{Unwakeable: c.checkBegun(ctx, conn, thread)}, view
}
