package jsonrpc

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// pendingCall is a call that waits for its response.
type pendingCall struct {
	done   chan struct{} // closed when the others are set
	answer *parsedLine
	err    error
}

// Call calls a method, waits for its result and reads it into result: a pointer, or nil.
// If ctx ends first, Call tells the other end (rpc.cancel).
//
// An error of the other end is a *kinds.Error if it names a code of the protocol, else an
// *Error. If the connection ends first the error is [ErrClosed].
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	return c.CallFor(ctx, identity.ID{}, 0, method, params, result)
}

// CallFor is [Conn.Call] for a peer, or for nobody if peer is zero. If many lines wait to be
// written, those for different peers take turns. It waits for limit at most, unless limit is
// 0, and then fails with context.DeadlineExceeded. A context with a deadline does the same
// for five times the price.
func (c *Conn) CallFor(ctx context.Context, peer identity.ID, limit time.Duration, method string, params, result any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &pendingCall{done: make(chan struct{})}
	c.underWay.Add(1)
	defer c.underWay.Add(-1)
	c.mu.Lock()
	if c.calls == nil {
		cause := c.err
		c.mu.Unlock()
		if cause == nil {
			cause = io.EOF // the other end has finished writing
		}
		return newClosedError(cause, kinds.DeliveredNo)
	}
	c.lastID++
	id := c.lastID
	c.calls[id] = w
	c.mu.Unlock()

	err := c.writeRequest(ctx, peer, id, c.whenRequestsAreFull(), method, params)
	if err != nil {
		if c.removeCall(id) == nil {
			if <-w.done; !errors.Is(w.err, ErrClosed) { // abandoned meanwhile
				return w.err
			}
		}
		return err
	}
	if limit > 0 {
		timer := time.AfterFunc(limit, func() {
			if c.removeCall(id) != nil {
				w.err = context.DeadlineExceeded
				close(w.done)
				c.writeCancel(peer, id)
			}
		})
		defer timer.Stop()
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		if c.removeCall(id) != nil {
			c.writeCancel(peer, id)
			return ctx.Err()
		}
		<-w.done // the response was quicker
	}
	if w.err != nil {
		return w.err
	}
	err = readScannedValue(w.answer.params, &w.answer.paramsObject, result, false)
	w.answer.returnToPool()
	if err != nil {
		return &Error{Code: CodeInvalidRequest, Message: "the answer to " + method + " is malformed"}
	}
	return nil
}

// CanCall reports whether a response can still come.
func (c *Conn) CanCall() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls != nil
}

// Notify sends a notification. A nil error does not mean that it arrived.
func (c *Conn) Notify(method string, params any) error {
	return c.writeRequest(context.Background(), identity.ID{}, 0, c.whenRequestsAreFull(), method, params)
}

// NotifyWhenRoom is Notify, but waits until the other end has read enough for it, also with
// Options.PushBack. It blocks until then, until ctx ends, or until the connection does.
func (c *Conn) NotifyWhenRoom(ctx context.Context, method string, params any) error {
	return c.writeRequest(ctx, identity.ID{}, 0, waitWhenFull, method, params)
}

// whenRequestsAreFull returns what requests and notifications do if the queue is full.
func (c *Conn) whenRequestsAreFull() whenFull {
	if c.opts.PushBack {
		return failWhenFull
	}
	return waitWhenFull
}

// writeRequest writes a request, or a notification if id is 0.
func (c *Conn) writeRequest(ctx context.Context, peer identity.ID, id uint64, mode whenFull, method string, params any) error {
	return c.writeLine(ctx, peer, mode, func(line *lineBatch) error {
		b := append(line.text, `{"jsonrpc":"2.0"`...)
		if id != 0 {
			b = append(b, `,"id":`...)
			b = strconv.AppendUint(b, id, 10)
		}
		b = append(b, `,"method":"`...)
		b = append(b, method...)
		line.text = append(b, '"')
		if params == nil {
			return nil
		}
		line.text = append(line.text, `,"params":`...)
		return line.appendValue(params, c.opts.SplicePayloads)
	})
}

// writeCancel tells the other end that nobody waits for the response to id any more.
func (c *Conn) writeCancel(peer identity.ID, id uint64) {
	c.writeLine(context.Background(), peer, insertWhenFull, func(line *lineBatch) error {
		b := append(line.text, `{"jsonrpc":"2.0","method":"rpc.cancel","params":{"id":`...)
		line.text = append(strconv.AppendUint(b, id, 10), '}')
		return nil
	})
}

// completeCall hands a response to its call, which releases the line. An error without an
// id concerns a line of this end that the other end could not read. Its call would wait
// for ever, so completeCall returns the error, which ends the connection.
func (c *Conn) completeCall(m *parsedLine, fail *Error) error {
	if m.id == nil && m.errorText != nil {
		return readErrorObject(m.errorText)
	}
	id, err := strconv.ParseUint(string(m.id), 10, 64)
	if err != nil {
		return nil
	}
	w := c.removeCall(id)
	if w == nil {
		return nil // given up
	}
	switch {
	case fail != nil:
		w.err = fail
	case m.errorText != nil:
		w.err = readErrorObject(m.errorText)
	default:
		w.answer = m
	}
	close(w.done)
	return nil
}

// removeCall takes a call out of those under way. It returns nil if the call has ended
// already.
func (c *Conn) removeCall(id uint64) *pendingCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.calls[id]
	delete(c.calls, id)
	return w
}
