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

// call is one that waits for its response.
type call struct {
	done   chan struct{} // closed when the others are set
	answer *message
	err    error
}

// Call calls a method and waits for its result, which it reads into result: a
// pointer, or nil. When ctx ends first the other end is told (rpc.cancel).
//
// An error of the other end is a *kinds.Error where it names a code of the
// protocol, else an *RPCError. If the connection ends first it is [ErrClosed].
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	return c.CallWithin(ctx, 0, method, params, result)
}

// CallWithin is [Conn.Call] that waits for limit at most, if that is not 0, and
// then fails with context.DeadlineExceeded. A context with the deadline would do the
// same for five times the price.
func (c *Conn) CallWithin(ctx context.Context, limit time.Duration, method string, params, result any) error {
	return c.CallFor(ctx, identity.ID{}, limit, method, params, result)
}

// CallFor is [Conn.CallWithin] for a peer. Where many lines wait to be written, those
// for different peers take turns.
func (c *Conn) CallFor(ctx context.Context, peer identity.ID, limit time.Duration, method string, params, result any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &call{done: make(chan struct{})}
	c.active.Add(1)
	defer c.active.Add(-1)
	c.mu.Lock()
	if c.calls == nil {
		cause := c.err
		c.mu.Unlock()
		if cause == nil {
			cause = io.EOF // the other end has finished writing
		}
		return closed(cause, kinds.DeliveredNo)
	}
	c.lastID++
	id := c.lastID
	c.calls[id] = w
	c.mu.Unlock()

	err := c.send(ctx, peer, id, method, params)
	if err != nil {
		if c.take(id) == nil {
			if <-w.done; !errors.Is(w.err, ErrClosed) { // abandoned meanwhile
				return w.err
			}
		}
		return err
	}
	if limit > 0 {
		timer := time.AfterFunc(limit, func() {
			if c.take(id) != nil {
				w.err = context.DeadlineExceeded
				close(w.done)
				c.giveUp(peer, id)
			}
		})
		defer timer.Stop()
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		if c.take(id) != nil {
			c.giveUp(peer, id)
			return ctx.Err()
		}
		<-w.done // the response was quicker
	}
	if w.err != nil {
		return w.err
	}
	err = readValue(w.answer.params, &w.answer.inner, result, false)
	w.answer.release()
	if err != nil {
		return &RPCError{Code: CodeInvalidRequest, Message: "the answer to " + method + " is malformed: " + problem(err)}
	}
	return nil
}

// CanCall reports whether a response can still come.
func (c *Conn) CanCall() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls != nil
}

// Notify sends a notification. That it returns nil does not mean that it arrived.
func (c *Conn) Notify(method string, params any) error {
	return c.send(context.Background(), identity.ID{}, 0, method, params)
}

// send writes a request, or a notification where id is 0.
func (c *Conn) send(ctx context.Context, peer identity.ID, id uint64, method string, params any) error {
	mode := wait
	if c.opts.PushBack {
		mode = refuse
	}
	return c.write(ctx, peer, mode, func(b []byte) ([]byte, error) {
		b = append(b, `{"jsonrpc":"2.0"`...)
		if id != 0 {
			b = append(b, `,"id":`...)
			b = strconv.AppendUint(b, id, 10)
		}
		b = append(b, `,"method":"`...)
		b = append(b, method...)
		b = append(b, '"')
		if params == nil {
			return b, nil
		}
		return AppendValue(append(b, `,"params":`...), params)
	})
}

func (c *Conn) giveUp(peer identity.ID, id uint64) {
	c.write(context.Background(), peer, force, func(b []byte) ([]byte, error) {
		b = append(b, `{"jsonrpc":"2.0","method":"rpc.cancel","params":{"id":`...)
		return append(strconv.AppendUint(b, id, 10), '}'), nil
	})
}

// resolve hands a response to its call, which releases it. An error without an
// id is about a line of ours that could not be read: its call would wait for ever.
func (c *Conn) resolve(m *message, fail *RPCError) error {
	if m.id == nil && m.fault != nil {
		return fromRPC(m.fault)
	}
	id, err := strconv.ParseUint(string(m.id), 10, 64)
	if err != nil {
		return nil
	}
	w := c.take(id)
	if w == nil {
		return nil // given up
	}
	switch {
	case fail != nil:
		w.err = fail
	case m.fault != nil:
		w.err = fromRPC(m.fault)
	default:
		w.answer = m
	}
	close(w.done)
	return nil
}

func (c *Conn) take(id uint64) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.calls[id]
	delete(c.calls, id)
	return w
}
