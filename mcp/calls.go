package mcp

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Bounds of the calls that are kept.
const (
	maxCalls     = 64
	maxCallBytes = 8 << 20 // of answers and errors that are kept
)

// callTable keeps queries that a tool call began, while they are under way and for an hour after
// they have ended, so that acp_task can continue to wait and show later pages.
type callTable struct {
	mu    sync.Mutex
	calls map[wire.MessageID]*keptCall
	order []*keptCall // the oldest first
}

// keptCall is a query that continues although no tool call waits for it.
type keptCall struct {
	id     wire.MessageID
	to     string // as the model wrote it, as far as it is shown
	begun  time.Time
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended; then answer and err are set
	answer *client.Answer
	err    error
	ended  time.Time // guarded by callTable.mu; zero: it is under way
}

func (t *callTable) init() { t.calls = make(map[wire.MessageID]*keptCall) }

// beginCall begins a query and keeps it. ask runs in a goroutine of its own. The error is overloaded if
// as many as can be kept are under way, and invalid if one of that id is.
func (s *Server) beginCall(id wire.MessageID, to string, ask func(context.Context) (*client.Answer, error)) (*keptCall, error) {
	t := &s.calls
	ctx, cancel := context.WithCancel(s.life)
	c := &keptCall{id: id, to: client.Line(cutText(to, 100)), begun: time.Now(), cancel: cancel, done: make(chan struct{})}
	t.mu.Lock()
	t.dropOld(s.timing.keep)
	err := t.add(c)
	t.mu.Unlock()
	if err != nil {
		cancel()
		return nil, err
	}
	s.goOn(func(context.Context) {
		defer cancel()
		defer func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			c.ended = time.Now()
			t.dropOld(s.timing.keep)
			close(c.done)
		}()
		c.err = errPanic // if ask panics
		c.answer, c.err = ask(ctx)
	})
	return c, nil
}

// add keeps a call. It replaces a call with the same id that has ended. The caller holds mu.
func (t *callTable) add(c *keptCall) error {
	if old := t.calls[c.id]; old != nil {
		if old.ended.IsZero() {
			return kinds.Errorf(kinds.Invalid, "id: %s is under way already", c.id)
		}
		t.drop(old)
	}
	if len(t.order) >= maxCalls && !t.dropOldestEnded() {
		return kinds.Errorf(kinds.Overloaded, "%d queries are under way, the most there can be", maxCalls)
	}
	t.calls[c.id] = c
	t.order = append(t.order, c)
	return nil
}

// findCall returns a call that is kept, or nil.
func (s *Server) findCall(id wire.MessageID) *keptCall {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	s.calls.dropOld(s.timing.keep)
	return s.calls.calls[id]
}

// listCalls returns the calls that are kept, the newest first.
func (s *Server) listCalls() []*keptCall {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	s.calls.dropOld(s.timing.keep)
	all := slices.Clone(s.calls.order)
	slices.Reverse(all)
	return all
}

// size returns what the outcome of a call takes, in bytes. It has ended.
func (c *keptCall) size() int {
	if e, ok := errors.AsType[*kinds.Error](c.err); ok {
		return len(e.Message) + len(e.Details)
	}
	if c.answer == nil {
		return 0
	}
	return len(c.answer.Payload)
}

// dropOld drops what has ended long ago, and the oldest of what has ended if their outcomes take
// too much. The caller holds mu.
func (t *callTable) dropOld(keep time.Duration) {
	for _, c := range slices.Clone(t.order) {
		if !c.ended.IsZero() && time.Since(c.ended) > keep {
			t.drop(c)
		}
	}
	size := 0
	for _, c := range slices.Backward(slices.Clone(t.order)) {
		if c.ended.IsZero() {
			continue
		}
		if size += c.size(); size > maxCallBytes && size > c.size() {
			t.drop(c)
		}
	}
}

// dropOldestEnded makes room for one more, if something has ended. The caller holds mu.
func (t *callTable) dropOldestEnded() bool {
	for _, c := range t.order {
		if !c.ended.IsZero() {
			t.drop(c)
			return true
		}
	}
	return false
}

func (t *callTable) drop(c *keptCall) {
	if t.calls[c.id] == c {
		delete(t.calls, c.id)
	}
	t.order = slices.DeleteFunc(t.order, func(o *keptCall) bool { return o == c })
}

// isOver reports whether the call has ended.
func (c *keptCall) isOver() bool { return isClosed(c.done) }
