package jsonrpc

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// Request is a request or notification of the other end.
type Request struct {
	Method string
	Params jsontext.Value // not validated; see ReadParams. nil: none

	id        jsontext.Value // nil: a notification
	line      *parsedLine    // while the handler runs
	lineBytes int            // of its line
	peer      identity.ID    // for which it asks; zero: for none
	conn      *Conn
	responded atomic.Bool
	ctx       requestContext

	previous, next *Request // in Conn.requests; guarded by Conn.mu
}

// ReadParams reads the params into one of the params types. params is nil for a method without any.
// An unknown member is an error. The error is an *Error that names the wrong member.
//
// ReadParams takes payloads as text, delimited but not validated, that aliases the memory of
// the request. Package kinds validates them.
func (r *Request) ReadParams(params any) error { return r.decodeParams(params, true) }

// ReadParamsIgnoringUnknown is [Request.ReadParams] that ignores unknown members.
func (r *Request) ReadParamsIgnoringUnknown(params any) error { return r.decodeParams(params, false) }

// SetPeer says for which peer the request asks. If many lines wait to be written, answers
// for different peers take turns.
func (r *Request) SetPeer(peer identity.ID) { r.peer = peer }

func (r *Request) decodeParams(params any, strict bool) error {
	text := r.Params
	if text == nil {
		text = jsontext.Value("{}")
	}
	if params == nil {
		params = &struct{}{}
	}
	err := readScannedValue(text, &r.line.paramsObject, params, strict)
	if err == nil {
		return nil
	}
	code := CodeInvalidParams
	if _, ok := errors.AsType[*jsontext.SyntacticError](err); errors.Is(err, errSyntax) || ok {
		code = CodeParse
	}
	return &Error{Code: code, Message: r.Method + ": params: " + trimJSONPreamble(err)}
}

// Respond answers with a result; nil is {}. It does nothing for a notification. It blocks
// only while the queue of lines is full. If the result cannot be sent, the caller gets an
// error too.
func (r *Request) Respond(result any) error { return r.respondOnce(result, nil) }

// RespondError answers with an error: an *Error as it is, a *kinds.Error with all that it
// says, the end of a context as timeout or cancelled, any other error as internal.
func (r *Request) RespondError(err error) error { return r.respondOnce(nil, err) }

func (r *Request) respondOnce(result any, err error) error {
	if r.responded.Load() || r.id == nil {
		return nil
	}
	r.responded.Store(true)
	err = r.conn.writeResponse(r.peer, r.id, result, err)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*kinds.Error](err); ok && !errors.Is(err, ErrClosed) {
		r.conn.writeResponse(r.peer, r.id, nil, e)
	}
	return err
}

// CancelAfter ends the context of the handler after d, with context.DeadlineExceeded as its
// error, unless stop is called before. A context with a deadline costs three times as
// much.
func (r *Request) CancelAfter(d time.Duration) (stop func() bool) {
	return time.AfterFunc(d, func() { r.ctx.end(context.DeadlineExceeded) }).Stop
}

// startRequest runs the handler, queues the request, or answers that
// there is no room. size is the length of its line in bytes.
func (c *Conn) startRequest(m *parsedLine, size int) error {
	r := &Request{Method: m.method, Params: m.params, id: m.id, line: m, lineBytes: size, conn: c}
	r.ctx.values = c.values
	if c.opts.Handler == nil {
		return r.RespondError(NewMethodNotFound(m.method))
	}
	if err := c.opts.RequestLimit.adjustLoad(&c.requestLoad, requestLoad{1, size}); err != nil {
		return r.RespondError(err)
	}
	c.underWay.Add(1)
	c.mu.Lock()
	if c.takenOver.Load() { // since this line was read
		c.mu.Unlock()
		c.underWay.Add(-1)
		c.opts.RequestLimit.adjustLoad(&c.requestLoad, requestLoad{-1, -r.lineBytes})
		return unreadError{errReadAhead}
	}
	run := c.handlersRunning < c.opts.MaxInFlight
	full := !run && (len(c.waiting) >= maxWaiting || c.waitingBytes >= maxWaitingBytes)
	switch {
	case full:
	case run:
		c.handlersRunning++
	default:
		c.waiting = append(c.waiting, r)
		c.waitingBytes += len(r.Params)
	}
	if !full {
		c.addRequest(r)
	}
	c.mu.Unlock()

	switch {
	case full:
		c.underWay.Add(-1)
		c.opts.RequestLimit.adjustLoad(&c.requestLoad, requestLoad{-1, -r.lineBytes})
		e := kinds.Errorf(kinds.Overloaded, "%d requests wait on this connection: wait for answers before sending more", maxWaiting)
		e.RetryAfterMS = 1000
		return r.RespondError(e)
	case run:
		c.workers.Start(func() { c.runHandlers(r) }, c.handlers.Go)
	}
	return nil
}

// addRequest makes a request known that runs or waits. Its context has ended if the connection
// has. The caller holds mu.
func (c *Conn) addRequest(r *Request) {
	if r.id != nil {
		c.requestsByID[string(r.id)] = r
	}
	if r.next = c.requests; r.next != nil {
		r.next.previous = r
	}
	c.requests = r
	if c.err != nil {
		r.ctx.end(context.Canceled)
	}
}

// removeRequest makes a request unknown that addRequest has made known. The caller holds mu.
func (c *Conn) removeRequest(r *Request) {
	if r.id != nil && c.requestsByID[string(r.id)] == r {
		delete(c.requestsByID, string(r.id))
	}
	if r.next != nil {
		r.next.previous = r.previous
	}
	if r.previous != nil {
		r.previous.next = r.next
	} else {
		c.requests = r.next
	}
	r.previous, r.next = nil, nil
}

// runHandlers runs the handler of a request, and then those of requests that wait.
func (c *Conn) runHandlers(r *Request) {
	for r != nil {
		c.opts.Handler(&r.ctx, c, r)
		if !r.responded.Load() {
			r.RespondError(kinds.Errorf(kinds.Internal, "%s: the handler gave no answer", r.Method))
		}
		c.underWay.Add(-1)
		r.ctx.end(context.Canceled)
		r.line.returnToPool()
		c.opts.RequestLimit.adjustLoad(&c.requestLoad, requestLoad{-1, -r.lineBytes})
		r = c.finishAndTakeNext(r)
	}
}

// finishAndTakeNext removes r, which has ended. It returns the next request that waits, or nil.
func (c *Conn) finishAndTakeNext(r *Request) (next *Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeRequest(r)
	if len(c.waiting) == 0 {
		c.waiting = nil
		c.handlersRunning--
		return nil
	}
	next = c.waiting[0]
	c.waiting[0] = nil
	c.waiting = c.waiting[1:]
	c.waitingBytes -= len(next.Params)
	return next
}

// cancelRequest serves rpc.cancel. It ignores an id that is unknown or whose request has
// ended.
func (c *Conn) cancelRequest(m *parsedLine) {
	for i := range m.paramsObject.count {
		if name, id := m.paramsObject.memberAt(i); string(name) == "id" {
			c.mu.Lock()
			r := c.requestsByID[string(id)]
			c.mu.Unlock()
			if r != nil {
				r.ctx.end(context.Canceled)
			}
		}
	}
	m.returnToPool()
}
