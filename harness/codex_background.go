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
	if at, ok := readThreadTime(t.ID); ok {
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
	mu     sync.Mutex // guards what follows
	thread string     // of which this is known
	judged string     // the latest turn of which it is known who has begun it; empty: none is
	user   bool       // the user has begun a turn since the thread was loaded
	model  bool       // the model of another thread has begun one, or has made the thread
	made   bool       // it is known whether the model of another thread has made the thread, by a fork
}

// isInBackground reports whether a thread works for another one's model, and its user has said nothing
// in it since it was loaded. The turns tell, also a look that comes late. others are the other threads of
// its terminal.
func (c *codex) isInBackground(ctx context.Context, conn *codexConn, thread string, others []codexThread) (bool, error) {
	w := &c.work
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.thread != thread {
		w.thread, w.judged, w.user, w.model, w.made = thread, "", false, false, false
	}
	if w.user {
		return false, nil
	}
	err := c.judgeTurns(ctx, conn, w)
	if err == nil && !w.user && !w.model && !w.made {
		err = c.judgeFork(ctx, conn, w, others)
	}
	return w.model && !w.user, err
}

// judgeTurns learns who has begun the turns since the thread was loaded, of which that is not known. The
// caller holds w.mu.
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
		first, err := c.readFirstItem(ctx, conn, w.thread, t.ID)
		switch {
		case err != nil:
			return err
		case first.Type == "" && t.Ended == nil && n == 0: // it has none yet
			return nil
		case first.Type == itemOfUser && !c.hasPosted(first.ClientID):
			w.user = true
		case first.Type == itemOfTool && first.Namespace == codexTerminal:
			w.model = true
		}
		w.judged = t.ID
	}
	return nil
}

// judgeFork learns whether the model of another thread has forked this one, in which no turn has begun
// since: the user forks none while a turn runs. The caller holds w.mu.
func (c *codex) judgeFork(ctx context.Context, conn *codexConn, w *codexWork, others []codexThread) error {
	made, ok := readThreadTime(w.thread)
	if ok && made.Before(c.loads.began.Add(-leastUnload)) { // it was loaded again
		w.made = true
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
			w.model = w.model || !ok || slices.ContainsFunc(turns, func(t codexTurn) bool { return t.hasRunAt(made) })
		}
	}
	w.made = true
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
func (c *codex) readFirstItem(ctx context.Context, conn *codexConn, thread, turn string) (first codexItem, _ error) {
	var result struct {
		Data []struct {
			Item codexItem `json:"item"`
		} `json:"data"`
	}
	params := map[string]any{"threadId": thread, "turnId": turn, "limit": 1, "sortDirection": "asc"}
	if err := conn.call(ctx, "thread/items/list", params, &result); err != nil {
		return first, c.explain(err)
	}
	if len(result.Data) > 0 {
		first = result.Data[0].Item
	}
	return first, nil
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
