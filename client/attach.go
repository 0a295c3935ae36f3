package client

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Handler has the functions of an attached agent, one for each kind of message. Each call is
// in a goroutine of its own. Its context ends if the sender gives up or the connection
// breaks, and for Query also at the deadline.
//
// If a function returns a *kinds.Error, the sender gets it. If it returns any other error, the sender gets only
// the news that the agent failed, because the text may be about this machine: log it, or return a *kinds.Error.
//
// A query, delegation or notice that a function sends with its context, or with one made from it, follows
// from the message that the function got, unless its Head names a parent or a thread. So the daemon can end chains of
// calls that lead back to an agent, and queries that nobody waits for any more.
//
// A nil function means that the agent does not take the kind. The daemon then answers the sender, or keeps the
// message in the inbox.
type Handler struct {
	// Answer returns the text that answers a question. If it is set, [Handler.Query] is not called.
	Answer func(context.Context, *Question) (string, error)

	// Work does what was delegated, and returns its outcome. If it is set, Delegate and Cancel are not called. Its
	// context ends if the delegator cancels the work, if nobody waits for it any more, or when the agent detaches. It
	// continues when the connection breaks. The client sends the outcome again until the delegator's daemon has it.
	Work func(context.Context, *Work) (string, error)

	// Query returns the payload of the response: a *kinds.Response, a wire.Payload,
	// or a value that marshals to one. If [Inbound.Delegation] is set, the question is about that
	// delegation, which this agent gave.
	Query func(context.Context, *Inbound) (any, error)

	// Delegate decides whether the agent takes the task, and must return soon: a nil
	// *kinds.Ack with a nil error takes it. The work continues afterwards, under another
	// context, and ends with [Client.SendResult] or [Client.SendError]. If that context is
	// made of this one by context.WithoutCancel, its calls follow from the delegation.
	Delegate func(context.Context, *Inbound) (*kinds.Ack, error)
	// Cancel decides whether the agent gives up the delegation that Ref names. A nil
	// *kinds.Ack with a nil error gives it up.
	Cancel func(context.Context, *Inbound) (*kinds.Ack, error)

	// Each of these three returns nil to confirm that the agent has the message. If no
	// agent does so within 4 s, the message is stored in the inbox; a partial result is stored
	// with its task instead.
	Notify func(context.Context, *Inbound) error
	Result func(context.Context, *Inbound) error
	Error  func(context.Context, *Inbound) error

	// Wake is for sessions ([AttachParams.Session]), instead of the three above. The daemon calls
	// it for each notify, result and error that is now stored in the inbox for the session. The
	// call may have a grant in [Inbound.Wake]; if a grant comes later, there is one more call.
	//
	// The daemon also calls it for a query or delegation that has a grant. That call may come
	// before the one of Query or Delegate, with it or later.
	//
	// If the payload is over 64 KiB, the call has only its beginning. Wake returns when the program
	// has taken the message or refused it, which may be after the turn that is under way.
	//
	// A nil *WakeAnswer means that nothing was posted. If the message is not proven to be read,
	// and the session does not acknowledge it within 4 s, its sender gets the receipt held.
	Wake func(context.Context, *Inbound) (*WakeAnswer, error)

	// OnAttached is called each time the agent was attached: the first time, and after a broken
	// connection was renewed. It must return soon. Other functions may be called before it.
	OnAttached func()
}

// attachedAgent is an agent that Attach keeps attached.
type attachedAgent struct {
	params    AttachParams // Key is what the daemon gave; used by Attach and, one at a time, by openAndAttach
	functions map[string]messageFunc
	key       string         // params.Key as the daemon gave it; "" before the first attach; guarded by Client.mu
	session   *SessionInfo   // what is so of it now; guarded by Client.mu
	declared  *SessionInfo   // what the daemon got last; guarded by Client.mu
	handlers  sync.WaitGroup // those that run, on whichever connection; Add is called with Client.mu held
}

// Attach attaches an agent, and blocks until ctx ends. The functions of h get the agent's messages.
// If p names no kinds, they are those that h has functions for. If the connection breaks,
// Attach renews it with the key that the first attach returned. It returns the error of ctx,
// any error of the first attempt to attach, or a later one that is not retryable.
//
// A client has one agent at a time, because it makes its calls as that agent: the daemon
// hands the result of a delegation to the agent that delegated. At the end Attach closes
// the connection, and calls that are under way fail. It returns when the functions of h
// have returned: a function that waits for Attach to return waits for ever.
func (c *Client) Attach(ctx context.Context, p AttachParams, h Handler) error {
	if h.Answer != nil {
		h.Query = answerText(h.Answer)
	}
	w := newWorkers(ctx, c, h.Work)
	defer w.stop()
	if h.Work != nil {
		h.Delegate, h.Cancel = w.accept, w.cancel
	}
	a := &attachedAgent{params: p, session: p.Session, functions: h.listFunctionsByMethod()}
	if len(p.Kinds) == 0 {
		a.params.Kinds = h.listKinds()
	}
	c.mu.Lock()
	if c.agent != nil {
		c.mu.Unlock()
		return ownwords.New("attach: this client has an agent attached already: use another client")
	}
	c.agent = a
	c.mu.Unlock()
	defer c.detachAgent()
	defer w.end()
	return keepConnected(ctx, func() (*jsonrpc.Conn, error) {
		conn, err := c.connect(ctx)
		if err == nil && h.OnAttached != nil {
			h.OnAttached()
		}
		return conn, err
	})
}

// DeclareSession sends the daemon what has changed about the session that Attach keeps attached, such
// as that nothing can wake it. The session stays attached, and keeps what it has in hand. If the
// daemon cannot be reached now, it gets the change when the connection is renewed.
func (c *Client) DeclareSession(ctx context.Context, s *SessionInfo) error {
	c.mu.Lock()
	agent := c.agent
	if agent != nil {
		agent.session = s
	}
	c.mu.Unlock()
	if agent == nil {
		return ownwords.New("declare a session: this client has no agent attached: call Attach first")
	}
	_, err := c.connect(ctx)
	return err
}

// detachAgent detaches the agent by closing the connection, for want of a method. It waits for all
// handlers of the agent, also for those whose connection broke before.
func (c *Client) detachAgent() {
	c.mu.Lock()
	agent, conn, onConn := c.agent, c.conn, c.agentOnConn
	c.agent, c.agentOnConn = nil, false
	c.mu.Unlock()
	if onConn {
		conn.Close()
	}
	agent.handlers.Wait()
}

// messageFunc takes a message from the daemon, and returns the answer's payload.
type messageFunc func(context.Context, *Inbound) (any, error)

// listFunctionsByMethod returns the functions of h, by the methods that they answer.
func (h *Handler) listFunctionsByMethod() map[string]messageFunc {
	all := make(map[string]messageFunc)
	addDecision := func(method string, decide func(context.Context, *Inbound) (*kinds.Ack, error)) {
		if decide != nil {
			all[method] = func(ctx context.Context, in *Inbound) (any, error) {
				ack, err := decide(ctx, in)
				return cmp.Or(ack, &kinds.Ack{Accepted: true}), err
			}
		}
	}
	addConfirmation := func(method string, take func(context.Context, *Inbound) error) {
		if take != nil {
			all[method] = func(ctx context.Context, in *Inbound) (any, error) { return nil, take(ctx, in) }
		}
	}
	if h.Query != nil {
		all[MethodQuery] = h.answerQuery
	}
	addDecision(MethodDelegate, h.Delegate)
	addDecision(MethodCancel, h.Cancel)
	addConfirmation(MethodNotify, h.Notify)
	addConfirmation(MethodResult, h.Result)
	addConfirmation(MethodError, h.Error)
	if h.Wake != nil {
		all[MethodWake] = func(ctx context.Context, in *Inbound) (any, error) {
			answer, err := h.Wake(ctx, in)
			return cmp.Or(answer, new(WakeAnswer)), err
		}
	}
	return all
}

// listKinds returns the kinds for which h has functions. Wake is one for all that is stored in the inbox.
func (h *Handler) listKinds() []string {
	all := h.listFunctionsByMethod()
	if h.Wake != nil {
		delete(all, MethodWake)
		for _, k := range kinds.ListKinds() {
			if k.Class == kinds.Message {
				all[k.Name] = nil
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// answerQuery calls h.Query, under the message's deadline. It checks that an answer given as
// JSON text is one object.
func (h *Handler) answerQuery(ctx context.Context, in *Inbound) (any, error) {
	if in.DeadlineMS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(in.DeadlineMS)*time.Millisecond)
		defer cancel()
	}
	answer, err := h.Query(ctx, in)
	switch text := answer.(type) {
	case wire.Payload:
		err = errors.Join(err, checkPayloadIsObject(text))
	case jsontext.Value:
		err = errors.Join(err, checkPayloadIsObject(wire.Payload(text)))
	}
	return answer, err
}

// handledKey is the key of a context's value: the id of the message that a handler has got.
type handledKey struct{}

// callFromHandler makes a call with h as its head. If ctx is a handler's, and h names neither a parent nor a
// thread, the call follows from the handler's message, as long as the daemon knows that.
func callFromHandler[R any](ctx context.Context, h *Head, call func() (R, error)) (R, error) {
	handled, ok := ctx.Value(handledKey{}).(wire.MessageID)
	if !ok || !h.Parent.IsZero() || h.Thread != "" {
		return call()
	}
	h.Parent = handled
	r, err := call()
	if e, ok := errors.AsType[*kinds.Error](err); ok && e.Reason() == kinds.ReasonParentUnknown {
		h.Parent = wire.MessageID{}
		return call()
	}
	return r, err
}

// serveRequest answers the daemon's requests to the attached agent.
func (c *Client) serveRequest(ctx context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) {
	c.mu.Lock()
	a := c.agent
	if a != nil {
		a.handlers.Add(1)
	}
	c.mu.Unlock()
	if a == nil {
		r.RespondError(kinds.Errorf(kinds.NoAgent, "%s: the agent has detached", r.Method))
		return
	}
	defer a.handlers.Done()
	if result, err := a.answerRequest(ctx, r); err != nil {
		r.RespondError(hideText(err))
	} else {
		r.Respond(result)
	}
}

// hideText returns the error that a sender gets. Text that is not meant for senders is left out.
func hideText(err error) error {
	_, isCoded := errors.AsType[*kinds.Error](err)
	if _, isRPC := errors.AsType[*jsonrpc.Error](err); isCoded || isRPC {
		return err
	}
	return kinds.Errorf(kinds.AsError(err).Code, "the agent failed")
}

// answerRequest calls the function that answers a request.
func (a *attachedAgent) answerRequest(ctx context.Context, r *jsonrpc.Request) (any, error) {
	in := new(Inbound)
	if err := r.ReadParamsIgnoringUnknown(in); err != nil {
		return nil, err
	}
	r.SetPeer(in.From)
	ctx = context.WithValue(ctx, handledKey{}, in.ID)
	answer, ok := a.functions[r.Method]
	if !ok {
		return nil, kinds.Errorf(kinds.UnknownKind, "the agent does not take %.64q", r.Method)
	}
	return answer(ctx, in)
}
