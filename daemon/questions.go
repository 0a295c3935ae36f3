package daemon

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/known"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/outgoing"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/sessions"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// serveQuestion asks the agent that gave a delegation back, by a query that refers to it. It
// ends when the delegation does.
func (d *Daemon) serveQuestion(ctx context.Context, s *local.Conn, r *jsonrpc.Request, p *client.QueryParams) (any, error) {
	began := time.Now()
	t := d.delegations.FindByID(s.GuestCredential(), p.Ref, client.Taken)
	if t == nil {
		return nil, kinds.Errorf(kinds.NotFound, "ref: %s names no delegation that was taken here: see tasks", p.Ref)
	}
	if p.To != "" {
		switch whom, agent, err := d.outgoing.ResolveRecipient(ctx, s, p.To, kinds.KindQuery, p.Payload); {
		case err != nil:
			return nil, err
		case whom.ID != t.Peer || agent != "":
			return nil, kinds.Errorf(kinds.Invalid, "to: a question about a delegation goes to the agent that gave it, at %s: leave it out", d.peerName(t.Peer))
		}
	}
	if err := d.outgoing.CheckMayReport(s, t); err != nil {
		return nil, err
	}
	if err := d.delegations.AwaitOpenForQuestions(ctx, t); err != nil {
		return nil, err
	}
	head := p.Head
	head.Parent = cmp.Or(head.Parent, t.ID) // it follows from the delegation
	env, err := d.composeQuestion(ctx, s, t, p, &head)
	if err != nil {
		return nil, err
	}
	query, err := d.outgoing.Check(env, &head)
	if err != nil {
		return nil, err
	}
	if n := len(p.Payload); n > kinds.MaxQuestion {
		return nil, kinds.Errorf(kinds.TooLarge, "query: a question about a delegation has at most %d bytes, this one has %d: ask for less at a time", kinds.MaxQuestion, n)
	}
	if err := d.outgoing.CountSend(ctx, &head, env); err != nil {
		return nil, err
	}
	left := query.QueryTimeout() - time.Since(began)
	defer r.CancelAfter(left)()
	ctx, leave, err := d.known.FollowParent(ctx, &p.Head)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.calls.Go(func() {
		if d.delegations.WaitForEnd(ctx, t, nil, nil) == nil {
			cancel(d.delegations.CheckOpenForQuestions(t))
		}
	})
	reply, rtt, err := d.node.Exchange(ctx, query)
	over, isOver := errors.AsType[*kinds.Error](context.Cause(ctx))
	switch {
	case err != nil && known.HasParentEnded(ctx):
		return nil, known.NewParentEndedError(kinds.AsError(err).Delivered())
	case err != nil && isOver && kinds.AsError(err).From == "":
		return nil, over
	case err != nil:
		return nil, err
	}
	return outgoing.NewAnswer(query, reply, rtt), nil
}

// composeQuestion returns the envelope of a question about a delegation that was taken.
func (d *Daemon) composeQuestion(ctx context.Context, s *local.Conn, t *delegation.Delegation, p *client.QueryParams, h *client.Head) (*wire.Envelope, error) {
	if p.Thread != "" {
		return nil, kinds.Errorf(kinds.Invalid, "thread: it follows from ref: leave it out")
	}
	c, err := d.known.FindParentChain(ctx, s.GuestCredential(), h)
	if err != nil {
		return nil, err
	}
	env := wire.NewEnvelope(d.id, t.Peer, kinds.KindQuery, p.Payload)
	env.ID = cmp.Or(h.ID, env.ID)
	env.Ref, env.Thread, env.Hops, env.Trace = &p.Ref, c.Thread, c.Hops, c.Trace
	env.FromAgent = s.Credential().Name
	return env, nil
}

// handleQuestion takes a question of a peer about a delegation that was given to it, and waits
// for the answer until the deadline of the query. The question stays open after that, and a repeat
// gets an answer that was given meanwhile.
func (d *Daemon) handleQuestion(ctx context.Context, query *peer.Passing) (wire.Payload, error) {
	answer, err := d.waitForAnswer(store.WithRequester(ctx, query.From), query)
	return answer, d.attached.MaskLocalError(query.Envelope, err)
}

func (d *Daemon) waitForAnswer(ctx context.Context, query *peer.Passing) (wire.Payload, error) {
	env, sender := query.Envelope, query.Sender
	t := d.delegations.Find(client.Given, sender.ID, *env.Ref)
	if t == nil {
		return nil, delegation.NewNotFoundError(*env.Ref)
	}
	query.SetAgent(&t.Agent)
	if err := d.permissions.CheckAllowed(sender, env.Kind, query.Domain); err != nil {
		return nil, err
	}
	if n := len(env.Payload); n > kinds.MaxQuestion {
		return nil, kinds.Errorf(kinds.TooLarge, "query: a question about a delegation has at most %d bytes, this one has %d: ask for less at a time (budget: %s)", kinds.MaxQuestion, n, budget.Questions.Name)
	}
	if err := d.space.CheckRoom(sender.ID); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, query.QueryTimeout())
	defer cancel()
	q, err := d.delegations.BeginQuestion(ctx, t, env, inbox.HashMessage(env))
	if err != nil {
		return nil, err
	}
	defer d.delegations.LeaveQuestion(q)
	for {
		answered, changed, failure := d.delegations.WatchQuestion(t, q)
		switch {
		case answered:
			return d.delegations.ReadAnswer(ctx, t, q)
		case failure != nil:
			return nil, failure
		}
		d.askDelegator(ctx, sender, t, q, env)
		select {
		case <-changed:
		case <-d.drain.Ending(): // and would wait for this
			return nil, kinds.Errorf(kinds.Timeout, "the daemon that waits for the answer shuts down: ask again with the same id when it is back")
		case <-ctx.Done():
			return nil, kinds.NewErrorFromCause(context.Cause(ctx))
		}
	}
}

// askDelegator passes a question to the agent that gave the delegation, if that is attached, takes
// queries and was not asked before. It does not wait for the answer. The agent has as long as the
// delegation lasts, however often the question is repeated meanwhile. The question takes no place of
// the agent: it belongs to work that the agent gave.
func (d *Daemon) askDelegator(ctx context.Context, sender identity.Peer, t *delegation.Delegation, q *delegation.Question, env *wire.Envelope) {
	if t.Agent == "" {
		return
	}
	takers := d.agents.FindTakers(env.Kind, "", t.Agent)
	if len(takers) == 0 || !d.delegations.ClaimQuestion(q, takers[0]) {
		return
	}
	asking, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	d.known.BeginQuery(env, takers[0], time.Time{}) // before its sender may give up: from then on nothing else keeps its id from other peers
	d.calls.Go(func() {
		defer cancel(nil)
		defer func() {
			answered, _, _ := d.delegations.WatchQuestion(t, q)
			d.known.EndQuery(env, answered)
		}()
		d.delegations.EndAsking(t, q, d.askAgent(asking, sender, t, q, takers[0], env))
	})
	d.calls.Go(func() {
		for {
			answered, changed, failure := d.delegations.WatchQuestion(t, q)
			if answered || failure != nil {
				cancel(errQuestionOver)
				return
			}
			select {
			case <-changed:
			case <-asking.Done():
				return
			}
		}
	})
}

// errQuestionOver is the cause with which an agent's work on a question ends that is answered, or
// is no more.
var errQuestionOver = kinds.Errorf(kinds.Cancelled, "the question was answered by somebody else, or is no more")

// askAgent asks an agent a question and records its answer. The error is for those that wait for
// an answer and may ask again; nil if they go on waiting.
func (d *Daemon) askAgent(ctx context.Context, sender identity.Peer, t *delegation.Delegation, q *delegation.Question, a *registry.Agent, env *wire.Envelope) error {
	in := &client.Inbound{Envelope: *env, Name: sender.Name, Delegation: d.describeDelegation(ctx, t, false)}
	left := t.TimeLeft()
	if !t.Deadline.IsZero() {
		in.DeadlineMS = uint64(max(left, time.Millisecond).Milliseconds())
	}
	asking := ctx
	if a.IsSession() {
		d.known.AddShown(env, a.KeyHash) // the session may act upon it when it has answered
		var decline context.CancelCauseFunc
		asking, decline = context.WithCancelCause(ctx)
		defer decline(nil)
		defer d.sessions.BeginExchange(a, sender, in, func() { decline(sessions.NewDeclinedError(env.Kind)) })()
		defer func() {
			if answered, _, _ := d.delegations.WatchQuestion(t, q); answered {
				d.sessions.Waker.NoteAnswer(a.Name, sender.ID)
			}
		}()
	}
	var answer wire.Payload
	err := agents.Call(asking, left+registry.ConfirmTime, a, in, &answer) // the end of the delegation is the first to end it
	if err == nil {
		err = d.recordAnswer(ctx, t, q, answer)
	}
	e := kinds.AsError(err)
	switch {
	case err == nil, ctx.Err() != nil, t.TimeLeft() <= 0, e.Code == kinds.NoAgent, e.Code == kinds.UnknownKind, errors.Is(err, errAnsweredBefore):
		return nil // somebody else may answer, or has, or the delegation ends
	case e.Retryable:
		return e
	}
	if err := d.delegations.CloseQuestion(ctx, t, q, d.attached.MaskLocalError(env, err)); err != nil {
		d.log.Error("a question about a delegation", "id", t.ID, "err", err)
	}
	return nil
}

// errAnsweredBefore says that a question has another answer.
var errAnsweredBefore = ownwords.New("the question was answered before")

// recordAnswer checks an answer to a question and records it. What the daemon's own agents say is
// worth the reserve.
func (d *Daemon) recordAnswer(ctx context.Context, t *delegation.Delegation, q *delegation.Question, answer wire.Payload) error {
	if err := kinds.CheckPayload(kinds.KindResponse, answer); err != nil {
		return kinds.Errorf(kinds.Internal, "the agent's answer is not valid: %v", err)
	}
	if n := len(answer); n > kinds.MaxQuestion {
		return newLongAnswerError(n)
	}
	err := d.space.RunWithReserve(func() error { return d.delegations.RecordAnswer(ctx, t, q, answer) })
	if errors.Is(err, &kinds.Error{Code: kinds.NotFound}) {
		return errAnsweredBefore
	}
	return err
}

func newLongAnswerError(n int) error {
	return kinds.Errorf(kinds.TooLarge, "the answer to a question about a delegation has at most %d bytes, this one has %d: say less", kinds.MaxQuestion, n)
}

// serveAnswer answers a question about a delegation that was given here, in place of the agent that
// gave it or by it.
func (d *Daemon) serveAnswer(ctx context.Context, s *local.Conn, p *client.AnswerParams) (any, error) {
	t, q, ok := d.delegations.FindQuestion(s.GuestCredential(), p.Ref)
	if !ok {
		return nil, kinds.Errorf(kinds.NotFound, "ref: %s names no question that waits for an answer, nor a delegation about which one does: see tasks", p.Ref)
	}
	if err := d.outgoing.CheckMayReport(s, t); err != nil {
		return nil, err
	}
	if err := kinds.CheckPayload(kinds.KindResponse, p.Payload); err != nil {
		return nil, err
	}
	if n := len(p.Payload); n > kinds.MaxQuestion {
		return nil, newLongAnswerError(n)
	}
	err := d.recordAnswer(ctx, t, q, p.Payload)
	if errors.Is(err, errAnsweredBefore) {
		return nil, kinds.Errorf(kinds.NotFound, "ref: the question %s was answered before, or is no more", q.ID)
	}
	if err != nil {
		return nil, err
	}
	return &client.Answered{ID: q.ID, Delegation: t.ID}, nil
}
