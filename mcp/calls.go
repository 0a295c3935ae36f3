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
	maxCallBytes = 8 << 20 // of answers and errors
)

// callTable keeps queries that a tool call began, and files that it sends, while they are under way and for an hour
// after they have ended, so that acp_task can continue to wait and show later pages.
type callTable struct {
	mu   sync.Mutex
	kept []*keptCall // the oldest first
}

// keptCall is a query, or the sending of a file, that continues although no tool call waits for it.
type keptCall struct {
	id     wire.MessageID
	to     string // as the model wrote it, as far as it is shown
	begun  time.Time
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended; then answer and err are set
	answer *client.Answer
	file   *fileSend // nil: it is a query
	all    *askedAll // of a query to all peers, which has no answer of its own; else nil
	err    error
	ended  time.Time // guarded by callTable.mu; zero: it is under way
}

// beginCall begins a call of which the id, to, file and all are set, and keeps it. ask runs in a goroutine of its own. The error is
// overloaded if as many as can be kept are under way, and invalid if one of that id is.
func (s *Server) beginCall(c *keptCall, ask func(context.Context) (*client.Answer, error)) error {
	t := &s.calls
	ctx, cancel := context.WithCancel(s.life)
	c.to, c.begun, c.cancel, c.done = client.Line(cutText(c.to, 100)), time.Now(), cancel, make(chan struct{})
	t.mu.Lock()
	t.dropOld(s.timing.keep)
	err := t.add(c)
	t.mu.Unlock()
	if err != nil {
		cancel()
		return err
	}
	s.goOn(func(context.Context) {
		defer cancel()
		defer func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			c.ended = time.Now()
			close(c.done)
			t.dropOld(s.timing.keep)
		}()
		c.err = errPanic // if ask panics
		c.answer, c.err = ask(ctx)
	})
	return nil
}

// add keeps a call, in the place of one with the same id that has ended. If there are too many, the oldest one
// goes that has ended. The caller holds mu.
func (t *callTable) add(c *keptCall) error {
	isSame := func(old *keptCall) bool { return old.id == c.id }
	if i := slices.IndexFunc(t.kept, isSame); i >= 0 && !t.kept[i].isOver() {
		return kinds.Errorf(kinds.Invalid, "id: %s is under way already", c.id)
	}
	t.kept = slices.DeleteFunc(t.kept, isSame)
	if len(t.kept) >= maxCalls {
		i := slices.IndexFunc(t.kept, (*keptCall).isOver)
		if i < 0 {
			return kinds.Errorf(kinds.Overloaded, "%d queries and files are under way, the most there can be", maxCalls)
		}
		t.kept = slices.Delete(t.kept, i, i+1)
	}
	t.kept = append(t.kept, c)
	return nil
}

// dropOld drops what has ended long ago, and the oldest of what has ended if their outcomes take too much. It keeps
// the newest outcome, however long that is. The caller holds mu.
func (t *callTable) dropOld(keep time.Duration) {
	t.kept = slices.DeleteFunc(t.kept, func(c *keptCall) bool { return c.isOver() && time.Since(c.ended) > keep })
	size := 0
	for i, c := range slices.Backward(t.kept) {
		if !c.isOver() {
			continue
		}
		if size += c.size(); size > maxCallBytes && size > c.size() {
			t.kept = slices.Delete(t.kept, i, i+1)
		}
	}
}

// size returns what the outcome of a call takes, in bytes. It has ended.
func (c *keptCall) size() int {
	if c.all != nil {
		_, _, _, size := c.all.read()
		return size
	}
	if e, ok := errors.AsType[*kinds.Error](c.err); ok {
		return len(e.Message) + len(e.Details)
	}
	if c.answer == nil {
		return 0
	}
	return len(c.answer.Payload)
}

// listCalls returns the calls that are kept, the newest first.
func (s *Server) listCalls() []*keptCall {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	s.calls.dropOld(s.timing.keep)
	all := slices.Clone(s.calls.kept)
	slices.Reverse(all)
	return all
}

// findCall returns a call that is kept, or nil.
func (s *Server) findCall(id wire.MessageID) *keptCall {
	for _, c := range s.listCalls() {
		if c.id == id {
			return c
		}
	}
	return nil
}

// isOver reports whether the call has ended.
func (c *keptCall) isOver() bool { return isClosed(c.done) }

// kind says what the call is: query or file.
func (c *keptCall) kind() string {
	if c.file != nil {
		return "file"
	}
	return kinds.KindQuery
}
