package harness

import (
	"context"
	"errors"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
)

const (
	// noticePause is between a notification and the look that follows it, so that several lead to one.
	noticePause = 50 * time.Millisecond
	// quietPause is between two looks at a thread while no notification comes.
	quietPause = 10 * time.Second
	// askingPause is the same while the user is asked in a turn that this process has begun.
	askingPause = time.Second
	// connectPause is between two connections to the app-server.
	connectPause = 2 * time.Second
	// approvalTime is for how long the user may be asked in a turn that this process has begun.
	approvalTime = 10 * time.Minute
)

// codexTurn is a turn that this process has begun. The watch forgets it when it has ended or is the user's.
type codexTurn struct {
	thread string
	post   *Post
	begun  time.Time

	// Only the watch uses these.
	seen     bool      // the thread was seen at work since
	askedAt  time.Time // since when the user is asked; zero if nobody is
	unreadAt time.Time // when it could not be read; zero if it was not tried
}

// Watch reports whether the thread can be woken, and whether Codex asks its user in it. It ends a turn
// that this process has begun and that waits for the user when nobody waits for the turn any more. Its
// connection joins no thread, so that it keeps none loaded.
func (c *codex) Watch(ctx context.Context, report func(Presence)) {
	joined, end, err := c.join(ctx)
	if err != nil {
		return
	}
	defer end()
	var last *Presence
	tell := func(p Presence) {
		if last == nil || p.Asks != last.Asks || !isSame(p.Unwakeable, last.Unwakeable) {
			last = &p
			report(p)
		}
	}
	for joined.Err() == nil {
		err := c.watchOnce(joined, tell)
		if joined.Err() == nil {
			tell(Presence{Unwakeable: err})
			pace.Sleep(joined, c.connectPause)
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
	c.forgetTurnless() // a turn may have run while there was no connection
	due := time.NewTimer(0)
	for {
		select {
		case n, ok := <-conn.notices:
			if !ok {
				return c.fail(ErrGone, conn.readCause())
			}
			if n.params.Status.Type == statusActive {
				c.noteBegun(n.params.Thread)
			}
			if own := c.knownThread(); own == "" || n.params.Thread == own {
				due.Reset(noticePause)
			}
		case <-c.changed:
			due.Reset(0)
		case <-due.C:
			p, pause := c.lookAround(ctx, conn)
			if ctx.Err() == nil {
				tell(p)
			}
			due.Reset(pause)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookAround looks at the thread, and ends a turn in it in which the user was asked for too long. pause
// is until the next look.
func (c *codex) lookAround(ctx context.Context, conn *codexConn) (p Presence, pause time.Duration) {
	turn := c.currentTurn() // before the thread is read: it may end meanwhile, and another one begin
	thread, err := c.findThread(ctx, conn)
	var t codexThread
	if err == nil {
		t, err = c.readThread(ctx, conn, thread)
	}
	switch {
	case err != nil:
		return Presence{Unwakeable: err}, quietPause
	case t.Status.Type == statusActive:
		c.noteTerminal(false)
		c.noteBegun(thread)
		if turn != nil {
			turn.seen = true
		}
	}
	switch {
	case t.Status.isAsking():
		p.Asks = codexTitle
		pause, p.Unwakeable = c.limitAsking(ctx, conn, turn)
		return p, pause
	case t.Status.Type == statusActive:
		if turn != nil {
			turn.askedAt = time.Time{}
		}
		return Presence{}, quietPause
	}
	if turn != nil && (turn.seen || time.Since(turn.begun) > quietPause) { // else it may only be about to begin
		c.forgetTurn(turn)
	}
	err = c.checkIdle(ctx, conn, &t)
	if err == nil && c.isTurnless(thread) {
		err = &Error{Harness: codexName, Version: c.version, Err: ErrNoTurn}
	}
	return Presence{Unwakeable: err}, quietPause
}

// checkIdle returns why a thread in which nothing runs cannot be woken.
func (c *codex) checkIdle(ctx context.Context, conn *codexConn, t *codexThread) error {
	switch {
	case t.isHidden():
		return c.fail(ErrNoThread, errHidden)
	case t.Status.Type == "notLoaded":
		return c.fail(ErrGone, ownwords.New("its thread is closed"))
	case t.Status.Type != statusIdle:
		return c.fail(ErrGone, ownwords.New("its thread is "+showWord(t.Status.Type, "systemError")))
	case c.isTerminalClosed(ctx, conn, t.ID):
		return c.fail(ErrUnattended, ownwords.New("its terminal is closed"))
	}
	return nil
}

// limitAsking ends the turn in which the user is asked, if this process has begun it, when nobody waits
// for it any more and after approvalTime. A turn in which the user has said something is the user's, and goes
// on. It returns how long to wait until the next look, and an error if it cannot learn whose the turn is.
func (c *codex) limitAsking(ctx context.Context, conn *codexConn, turn *codexTurn) (pause time.Duration, _ error) {
	if turn == nil {
		return quietPause, nil
	}
	if turn.askedAt.IsZero() {
		turn.askedAt = time.Now()
	}
	abandoned := turn.post.Abandoned != nil && turn.post.Abandoned()
	if !abandoned && time.Since(turn.askedAt) < c.approvalTime {
		return askingPause, nil
	}
	if time.Since(turn.unreadAt) < quietPause { // a turn that is too long to be read ends each connection that tries it
		return quietPause, c.fail(ErrBusy, errUnread)
	}
	id, err := turn.readID(ctx, conn)
	switch {
	case err != nil:
		turn.unreadAt = time.Now()
		return quietPause, c.fail(ErrBusy, err)
	case id == "":
		c.forgetTurn(turn)
		return quietPause, nil
	}
	err = conn.call(ctx, "turn/interrupt", map[string]any{"threadId": turn.thread, "turnId": id}, nil)
	if _, refused := errors.AsType[*codexError](err); err != nil && !refused { // it is refused if the turn has ended
		return askingPause, nil
	}
	c.forgetTurn(turn)
	if err == nil && !abandoned && turn.post.Unanswered != nil {
		turn.post.Unanswered(codexTitle)
	}
	return quietPause, nil
}

var errUnread = ownwords.New("what was said in it cannot be read, so acpd does not interrupt it: answer Codex in its terminal")

// readID returns the id of the thread's latest turn if it is this one, and the user has said nothing in it.
// Otherwise the id is empty. Text that the user types while a turn runs becomes a part of that turn once Codex has taken
// it: nobody else can read it before.
func (t *codexTurn) readID(ctx context.Context, conn *codexConn) (id string, _ error) {
	var result struct {
		Turns []struct {
			ID    string      `json:"id"`
			View  string      `json:"itemsView"`
			Items []codexItem `json:"items"`
		} `json:"data"`
	}
	const whole = "full" // a summary leaves out what the user has added
	err := conn.call(ctx, "thread/turns/list", map[string]any{"threadId": t.thread, "limit": 1, "itemsView": whole}, &result)
	if err != nil || len(result.Turns) != 1 || result.Turns[0].View != whole {
		return "", errUnread
	}
	for _, item := range result.Turns[0].Items {
		if item.Type != itemOfUser {
			continue
		}
		if id = result.Turns[0].ID; item.ClientID != t.post.Message.String() {
			return "", nil
		}
	}
	return id, nil
}

// noteBegun notes that a turn runs in the thread.
func (c *codex) noteBegun(thread string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turnless == thread {
		c.turnless = ""
	}
}

// forgetTurnless notes that a turn may have run in any thread.
func (c *codex) forgetTurnless() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turnless = ""
}

// isTurnless reports whether the thread can be woken only when it has had a turn.
func (c *codex) isTurnless(thread string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turnless == thread
}

// noteTurn remembers a turn that has begun, instead of the one before.
func (c *codex) noteTurn(t *codexTurn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn = t
}

// currentTurn returns the turn that this process has begun last, nil if that is known to have ended.
func (c *codex) currentTurn() *codexTurn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turn
}

func (c *codex) forgetTurn(t *codexTurn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn == t {
		c.turn = nil
	}
}
