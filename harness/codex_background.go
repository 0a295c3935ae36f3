package harness

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	// maxTurns bounds the turns of a thread that a look reads, and the posts that are remembered, in number.
	maxTurns = 64
	// leastUnload is shorter than Codex keeps a thread that nobody uses: no turn of an earlier load is younger.
	leastUnload = 30 * time.Second
)

// codexTurn is a turn of a thread.
type codexTurn struct {
	ID      string `json:"id"`
	Started int64  `json:"startedAt"`   // Unix time in s
	Ended   *int64 `json:"completedAt"` // the same; nil: it runs
}

// began returns when the turn began.
func (t *codexTurn) began() time.Time {
	if at, ok := readIDTime(t.ID); ok {
		return at
	}
	return time.Unix(t.Started, 0)
}

// hasRunAt reports whether the turn ran at a time, or may have: it is known to the second when it ended.
func (t *codexTurn) hasRunAt(at time.Time) bool {
	return !at.Before(t.began()) && (t.Ended == nil || at.Before(time.Unix(*t.Ended+1, 0)))
}

// codexWork is what is known of who has a thread work. Tools of the terminal let the model of another
// thread start one, fork one, and begin turns in one. The terminal shows no such thread.
type codexWork struct {
	mu        sync.Mutex // guards what follows
	thread    string     // of which the rest is known
	judged    string     // the latest turn of which it is known who has begun it; empty: none is
	byUser    bool       // the user has begun a turn since the thread was loaded
	byModel   bool       // the model of another thread has begun one, or has forked the thread
	forkKnown bool       // it is known whether the model of another thread has forked the thread
}

// isInBackground reports whether a thread works for another one's model, and the user has said nothing
// in it since it was loaded. Its turns tell, so that it does not matter when it is looked at. others are
// the other threads of its terminal.
func (c *codex) isInBackground(ctx context.Context, conn *codexConn, thread string, others []codexThread) (bool, error) {
	w := &c.work
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.thread != thread {
		w.thread, w.judged, w.byUser, w.byModel, w.forkKnown = thread, "", false, false, false
	}
	if w.byUser {
		return false, nil
	}
	err := c.judgeTurns(ctx, conn, w)
	if err == nil && !w.byUser && !w.byModel && !w.forkKnown {
		err = c.judgeFork(ctx, conn, w, others)
	}
	return w.byModel && !w.byUser, err
}

// judgeTurns learns who has begun the turns since the thread was loaded, of which that is not known.
// Earlier ones do not tell who has had it loaded. The caller holds w.mu.
func (c *codex) judgeTurns(ctx context.Context, conn *codexConn, w *codexWork) error {
	turns, err := c.listTurns(ctx, conn, w.thread, maxTurns)
	if errors.Is(err, ErrNoTurn) {
		return nil
	}
	if err != nil {
		return err
	}
	since := c.loads.began.Add(-leastUnload)
	if made := madeAt(w.thread); made.After(since) { // a fork has older turns, of what it is a copy of
		since = made
	}
	if at := slices.IndexFunc(turns, func(t codexTurn) bool { return t.ID == w.judged }); at >= 0 {
		turns = turns[:at]
	}
	for n, t := range slices.Backward(turns) {
		if t.began().Before(since) {
			continue
		}
		first, err := c.readFirstItem(ctx, conn, w.thread, &t)
		switch {
		case err != nil:
			return err
		case first.Type == "" && t.Ended == nil && n == 0: // it has none yet
			return nil
		case first.Type == itemOfUser && !c.hasPosted(first.ClientID):
			w.byUser = true
		case first.Type == itemOfTool && first.Namespace == codexTerminal:
			w.byModel = true
		}
		w.judged = t.ID
	}
	return nil
}

// judgeFork learns whether the model of another thread has forked this one, in which no turn has begun
// since: it did so in a turn, and the user forks none while one runs. The caller holds w.mu.
func (c *codex) judgeFork(ctx context.Context, conn *codexConn, w *codexWork, others []codexThread) error {
	made, ok := readIDTime(w.thread)
	if ok && made.Before(c.loads.began.Add(-leastUnload)) { // it was loaded again
		w.forkKnown = true
		return nil
	}
	t, err := c.readThread(ctx, conn, w.thread)
	if err != nil {
		return err
	}
	if t.Fork != "" {
		for _, other := range others {
			turns, err := c.listTurns(ctx, conn, other.ID, maxTurns)
			if err != nil && !errors.Is(err, ErrNoTurn) {
				return err
			}
			w.byModel = w.byModel || !ok || slices.ContainsFunc(turns, func(t codexTurn) bool { return t.hasRunAt(made) })
		}
	}
	w.forkKnown = true
	return nil
}

// listTurns returns the latest turns of a thread, the latest first. The error is ErrNoTurn if it has had
// none. Codex lets nobody join such a thread, and so does not say who is asked before its tools run.
func (c *codex) listTurns(ctx context.Context, conn *codexConn, thread string, most int) ([]codexTurn, error) {
	var result struct {
		Data []codexTurn `json:"data"`
	}
	err := conn.call(ctx, "thread/turns/list", map[string]any{"threadId": thread, "limit": most, "itemsView": "notLoaded"}, &result)
	refusal, refused := errors.AsType[*codexError](err)
	switch {
	case err == nil:
		return result.Data[:min(len(result.Data), most)], nil
	case refused && refusal.Code == codexRefused:
		return nil, &Error{Harness: codexName, Version: c.readVersion(), Err: ErrNoTurn}
	}
	return nil, c.explain(err)
}

// readFirstItem returns the item with which a turn has begun, the zero value if there is none.
func (c *codex) readFirstItem(ctx context.Context, conn *codexConn, thread string, turn *codexTurn) (first codexItem, _ error) {
	var result struct {
		Data []struct {
			Item codexItem `json:"item"`
		} `json:"data"`
	}
	params := map[string]any{"threadId": thread, "turnId": turn.ID, "limit": 1, "sortDirection": "asc"}
	err := conn.call(ctx, "thread/items/list", params, &result)
	if _, refused := errors.AsType[*codexError](err); refused {
		return c.readUserItem(ctx, conn, thread, turn)
	}
	if err != nil {
		return first, c.explain(err)
	}
	if len(result.Data) > 0 {
		first = result.Data[0].Item
	}
	return first, nil
}

// readUserItem is readFirstItem where Codex lists no items of a turn, as of a thread that an older Codex has
// kept: what the user has said in it. If the user has said nothing, a tool may have begun it.
func (c *codex) readUserItem(ctx context.Context, conn *codexConn, thread string, turn *codexTurn) (said codexItem, _ error) {
	var result struct {
		Data []struct {
			ID    string      `json:"id"`
			Items []codexItem `json:"items"`
		} `json:"data"`
	}
	if err := conn.call(ctx, "thread/turns/list", map[string]any{"threadId": thread, "limit": maxTurns, "itemsView": "summary"}, &result); err != nil {
		return said, c.explain(err)
	}
	for _, t := range result.Data {
		for _, item := range t.Items {
			if t.ID == turn.ID && item.Type == itemOfUser {
				return item, nil
			}
		}
	}
	if turn.Ended != nil {
		said = codexItem{Type: itemOfTool, Namespace: codexTerminal}
	}
	return said, nil
}

// notePosted remembers by which id this process has begun a turn, or is about to.
func (c *codex) notePosted(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.posted = append(slices.Clone(c.posted[max(0, len(c.posted)+1-maxTurns):]), id)
}

// hasPosted reports whether this process has begun a turn by an id, a short time ago.
func (c *codex) hasPosted(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.posted, id)
}
