package jsonrpc

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// Request is a request or notification of the other end.
type Request struct {
	Method string
	Params jsontext.Value // not validated; see Bind. nil: none

	id      jsontext.Value // nil: a notification
	message *message       // while the handler runs
	size    int            // of its line
	peer    identity.ID    // for whom it asks; zero: for nobody
	conn    *Conn
	ctx     context.Context
	cancel  context.CancelCauseFunc
	replied bool
}

// IsNotification reports whether no answer is expected; Reply and ReplyError do
// nothing then.
func (r *Request) IsNotification() bool { return r.id == nil }

// Bind reads the params into one of the params types; nil means that the method
// has none. Unknown members are an error. The error is an *RPCError that says
// which member is wrong.
//
// Payloads are taken as text, delimited but not validated, that aliases the
// request's own memory: package kinds validates them.
func (r *Request) Bind(params any) error { return r.bind(params, true) }

// BindKnown is [Request.Bind] that ignores unknown members.
func (r *Request) BindKnown(params any) error { return r.bind(params, false) }

// SetPeer says for which peer the request asks. Where many lines wait to be written,
// answers for different peers take turns.
func (r *Request) SetPeer(peer identity.ID) { r.peer = peer }

func (r *Request) bind(params any, strict bool) error {
	text := r.Params
	if text == nil {
		text = jsontext.Value("{}")
	}
	if params == nil {
		params = &struct{}{}
	}
	err := readValue(text, &r.message.inner, params, strict)
	if err == nil {
		return nil
	}
	code := CodeInvalidParams
	if _, ok := errors.AsType[*jsontext.SyntacticError](err); errors.Is(err, errSyntax) || ok {
		code = CodeParse
	}
	return &RPCError{Code: code, Message: r.Method + ": params: " + problem(err)}
}

// Reply answers with a result; nil is {}. It blocks only while the connection's
// queue is full. A result that cannot be sent becomes an error to the caller too.
func (r *Request) Reply(result any) error { return r.reply(result, nil) }

// ReplyError answers with an error: an *RPCError as it is, a *kinds.Error with
// all that it says, the end of a context as timeout or cancelled, any other as
// internal.
func (r *Request) ReplyError(err error) error { return r.reply(nil, err) }

func (r *Request) reply(result any, err error) error {
	if r.replied || r.id == nil {
		return nil
	}
	r.replied = true
	err = r.conn.respond(r.peer, r.id, result, err)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*kinds.Error](err); ok && !errors.Is(err, ErrClosed) {
		r.conn.respond(r.peer, r.id, nil, e)
	}
	return err
}

// Expire ends the handler's context after d, with context.DeadlineExceeded as its
// cause, unless stop is called before. A context of its own would cost three times as
// much.
func (r *Request) Expire(d time.Duration) (stop func() bool) {
	return time.AfterFunc(d, func() { r.cancel(context.DeadlineExceeded) }).Stop
}

// accept runs the handler, or lets the request wait for its turn. size is that of its line.
func (c *Conn) accept(ctx context.Context, m *message, size int) error {
	r := &Request{Method: m.method, Params: m.params, id: m.id, message: m, size: size, conn: c}
	if c.opts.Handler == nil {
		return r.ReplyError(MethodNotFound(m.method))
	}
	if u := c.opts.Underway; u != nil {
		if err := u.enter(&c.load, size); err != nil {
			return r.ReplyError(err)
		}
	}
	r.ctx, r.cancel = context.WithCancelCause(ctx)

	c.active.Add(1)
	c.mu.Lock()
	run := c.running < c.opts.MaxInFlight
	parked := run && c.parked > 0
	full := !run && (len(c.waiting) >= maxWaiting || c.bytes >= maxWaitingBytes)
	switch {
	case full:
	case run:
		c.running++
		if parked {
			c.parked--
		}
	default:
		c.waiting = append(c.waiting, r)
		c.bytes += len(r.Params)
	}
	if !full && r.id != nil {
		c.requests[string(r.id)] = r
	}
	c.mu.Unlock()

	switch {
	case full:
		r.cancel(nil)
		c.active.Add(-1)
		c.left(r)
		e := kinds.Errorf(kinds.Overloaded, "%d requests wait on this connection: wait for answers before sending more", maxWaiting)
		e.RetryAfterMS = 1000
		return r.ReplyError(e)
	case parked:
		c.work <- r
	case run:
		c.handlers.Go(func() { c.serve(r) })
	}
	return nil
}

// left notes that a request is not under way any more.
func (c *Conn) left(r *Request) {
	if u := c.opts.Underway; u != nil {
		u.leave(&c.load, r.size)
	}
}

// serve runs handlers, one after the other. When no request waits the goroutine
// parks, if few do: its stack has the size that handlers need.
func (c *Conn) serve(r *Request) {
	for r != nil {
		c.opts.Handler(r.ctx, c, r)
		if !r.replied {
			r.ReplyError(kinds.Errorf(kinds.Internal, "%s: the handler gave no answer", r.Method))
		}
		c.active.Add(-1)
		r.cancel(nil)
		r.message.release()
		c.left(r)
		next, park := c.finish(r)
		if park {
			next = <-c.work
		}
		r = next
	}
}

// finish returns the next request that waits, or whether to park.
func (c *Conn) finish(r *Request) (next *Request, park bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.id != nil && c.requests[string(r.id)] == r {
		delete(c.requests, string(r.id))
	}
	if len(c.waiting) == 0 {
		c.waiting = nil
		c.running--
		if park = c.parked < maxParked; park {
			c.parked++
		}
		return nil, park
	}
	next = c.waiting[0]
	c.waiting[0] = nil
	c.waiting = c.waiting[1:]
	c.bytes -= len(next.Params)
	return next, false
}

// cancelRequest serves rpc.cancel. An id that is unknown or done is ignored.
func (c *Conn) cancelRequest(m *message) {
	for i := range m.inner.n {
		if name, id := m.inner.member(i); string(name) == "id" {
			c.mu.Lock()
			r := c.requests[string(id)]
			c.mu.Unlock()
			if r != nil {
				r.cancel(nil)
			}
		}
	}
	m.release()
}
