package client

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Handler is what an attached agent does with messages. Each function is called in a
// goroutine of its own. Its context ends if the sender gives up or the connection breaks,
// and for Query also at the deadline. An error goes to the sender: a *kinds.Error as it
// is, any other as internal.
//
// A nil function means that the agent does not take the kind. The daemon is told so when
// the agent attaches. It then answers the sender, or keeps the message in the inbox.
type Handler struct {
	// Query returns the payload of the response: a *kinds.Response, a wire.Payload,
	// or whatever marshals to one.
	Query func(context.Context, *Inbound) (any, error)

	// Delegate takes the task or not, soon; the work goes on after it has returned
	// and ends with [Client.Result] or [Client.Error]. Its context is not the work's.
	Delegate func(context.Context, *Inbound) (*kinds.Ack, error)
	// Cancel is about the delegation that Ref names.
	Cancel func(context.Context, *Inbound) (*kinds.Ack, error)

	// Of these, nil is the word that the agent has the message. It must come
	// within 4 s, or the message goes to the inbox.
	Notify func(context.Context, *Inbound) error
	Result func(context.Context, *Inbound) error
	Error  func(context.Context, *Inbound) error

	// Attached is told each time that the agent is attached: at first, and when a
	// broken connection was renewed. It must return soon. Messages may come before.
	Attached func()
}

type attachedAgent struct {
	params  AttachParams
	handler Handler
	key     atomic.Pointer[string] // once it was attached
}

// Attach lets an agent answer until ctx ends. If p names no kinds, they are those that h
// has functions for. If the connection breaks, Attach renews it with the key that the
// first attach returned. The error is that of ctx, that of the first attempt to attach,
// or a later refusal.
//
// A client has one agent at a time, because its calls count as that agent's: the daemon
// hands the result of a delegation to the agent that delegated. At the end Attach closes
// the connection, and calls that are under way fail. It returns when the functions of h
// have returned.
func (c *Client) Attach(ctx context.Context, p AttachParams, h Handler) error {
	if len(p.Kinds) == 0 {
		p.Kinds = h.handledKinds()
	}
	a := &attachedAgent{params: p, handler: h}
	c.mu.Lock()
	if c.attached != nil {
		c.mu.Unlock()
		return errors.New("attach: this client has an agent attached already: use another client")
	}
	c.attached = a
	c.mu.Unlock()
	defer c.detach()
	return keepConnected(ctx, func() (*jsonrpc.Conn, error) {
		conn, err := c.connect(ctx)
		if err == nil && h.Attached != nil {
			h.Attached()
		}
		return conn, err
	})
}

// detach closes the connection: there is no other way to detach.
func (c *Client) detach() {
	c.mu.Lock()
	conn, ended, joined := c.conn, c.handlersEnded, c.attachedOnConn
	c.attached, c.attachedOnConn = nil, false
	c.mu.Unlock()
	if joined {
		conn.Close()
		<-ended
	}
}

func (h *Handler) handledKinds() []string {
	var list []string
	for kind, set := range map[string]bool{
		kinds.KindQuery:    h.Query != nil,
		kinds.KindDelegate: h.Delegate != nil,
		kinds.KindCancel:   h.Cancel != nil,
		kinds.KindNotify:   h.Notify != nil,
		kinds.KindResult:   h.Result != nil,
		kinds.KindError:    h.Error != nil,
	} {
		if set {
			list = append(list, kind)
		}
	}
	return list
}

// serveRequest answers the daemon's requests to the attached agent.
func (c *Client) serveRequest(ctx context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) {
	c.mu.Lock()
	a := c.attached
	c.mu.Unlock()
	if a == nil {
		r.ReplyError(kinds.Errorf(kinds.NoAgent, "%s: the agent has detached", r.Method))
		return
	}
	result, err := a.handler.call(ctx, r)
	if err != nil {
		r.ReplyError(err)
		return
	}
	r.Reply(result)
}

func (h *Handler) call(ctx context.Context, r *jsonrpc.Request) (any, error) {
	in := new(Inbound)
	if err := r.BindKnown(in); err != nil {
		return nil, err
	}
	r.SetPeer(in.From)
	switch {
	case r.Method == MethodQuery && h.Query != nil:
		if in.DeadlineMS > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(in.DeadlineMS)*time.Millisecond)
			defer cancel()
		}
		answer, err := h.Query(ctx, in)
		switch text := answer.(type) {
		case wire.Payload:
			err = errors.Join(err, checkPayload(text))
		case jsontext.Value:
			err = errors.Join(err, checkPayload(wire.Payload(text)))
		}
		return answer, err
	case r.Method == MethodDelegate && h.Delegate != nil:
		return ack(h.Delegate(ctx, in))
	case r.Method == MethodCancel && h.Cancel != nil:
		return ack(h.Cancel(ctx, in))
	case r.Method == MethodNotify && h.Notify != nil:
		return nil, h.Notify(ctx, in)
	case r.Method == MethodResult && h.Result != nil:
		return nil, h.Result(ctx, in)
	case r.Method == MethodError && h.Error != nil:
		return nil, h.Error(ctx, in)
	}
	return nil, kinds.Errorf(kinds.UnknownKind, "the agent does not take %.64q", r.Method)
}

func ack(a *kinds.Ack, err error) (any, error) {
	if a == nil && err == nil {
		a = &kinds.Ack{Accepted: true}
	}
	return a, err
}
