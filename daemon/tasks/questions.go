package tasks

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

// Ask asks the agent that gave a delegation back, by a query that refers to it. It
// ends when the delegation does.
func (s *Service) Ask(ctx context.Context, c *local.Conn, r *jsonrpc.Request, p *client.QueryParams) (any, error) {
	began := time.Now()
	t := s.Delegations.FindByID(c.GuestCredential(), p.Ref, client.Taken)
	if t == nil {
		return nil, kinds.Errorf(kinds.NotFound, "ref: %s names no delegation that was taken here: see tasks", p.Ref)
	}
	if p.To != "" {
		switch whom, agent, err := s.Outgoing.ResolveRecipient(ctx, c, p.To, kinds.KindQuery, p.Payload); {
		case err != nil:
			return nil, err
		case whom.ID != t.Peer || agent != "":
			return nil, kinds.Errorf(kinds.Invalid, "to: a question about a delegation goes to the agent that gave it, at %s: leave it out", s.Trust.NameOf(t.Peer))
		}
	}
	if err := s.Outgoing.CheckMayReport(c, t); err != nil {
		return nil, err
	}
	if err := s.Delegations.AwaitOpenForQuestions(ctx, t); err != nil {
		return nil, err
	}
	head := p.Head
	head.Parent = cmp.Or(head.Parent, t.ID) // it follows from the delegation
	env, err := s.composeQuestion(ctx, c, t, p, &head)
	if err != nil {
		return nil, err
	}
	query, err := s.Outgoing.Check(env, &head)
	if err != nil {
		return nil, err
	}
	if n := len(p.Payload); n > kinds.MaxQuestion {
		return nil, kinds.Errorf(kinds.TooLarge, "query: a question about a delegation has at most %d bytes, this one has %d: ask for less at a time", kinds.MaxQuestion, n)
	}
	if err := s.Outgoing.CountSend(ctx, &head, env); err != nil {
		return nil, err
	}
	left := query.QueryTimeout() - time.Since(began)
	defer r.CancelAfter(left)()
	ctx, leave, err := s.Known.FollowParent(ctx, &p.Head)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.Calls.Go(func() {
		if s.Delegations.WaitForEnd(ctx, t, nil, nil) == nil {
			cancel(s.Delegations.CheckOpenForQuestions(t))
		}
	})
	reply, rtt, err := s.Node.Exchange(ctx, query)
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
func (s *Service) composeQuestion(ctx context.Context, c *local.Conn, t *delegation.Delegation, p *client.QueryParams, h *client.Head) (*wire.Envelope, error) {
	if p.Thread != "" {
		return nil, kinds.Errorf(kinds.Invalid, "thread: it follows from ref: leave it out")
	}
	chain, err := s.Known.FindParentChain(ctx, c.GuestCredential(), h)
	if err != nil {
		return nil, err
	}
	env := wire.NewEnvelope(s.Self, t.Peer, kinds.KindQuery, p.Payload)
	env.ID = cmp.Or(h.ID, env.ID)
	env.Ref, env.Thread, env.Hops, env.Trace = &p.Ref, chain.Thread, chain.Hops, chain.Trace
	env.FromAgent = c.Credential().Name
	return env, nil
}

// HandleQuestion takes a question of a peer about a delegation that was given to it, and waits
// for the answer until the deadline of the query. The question stays open after that, and a repeat
// gets an answer that was given meanwhile.
func (s *Service) HandleQuestion(ctx context.Context, query *peer.Passing) (wire.Payload, error) {
	answer, err := s.waitForAnswer(store.WithRequester(ctx, query.From), query)
	return answer, s.Agents.MaskLocalError(query.Envelope, err)
}

func (s *Service) waitForAnswer(ctx context.Context, query *peer.Passing) (wire.Payload, error) {
	env, sender := query.Envelope, query.Sender
	t := s.Delegations.Find(client.Given, sender.ID, *env.Ref)
	if t == nil {
		return nil, delegation.NewNotFoundError(*env.Ref)
	}
	query.SetAgent(&t.Agent)
	if err := s.Permissions.CheckAllowed(sender, env.Kind, query.Domain); err != nil {
		return nil, err
	}
	if n := len(env.Payload); n > kinds.MaxQuestion {
		return nil, kinds.Errorf(kinds.TooLarge, "query: a question about a delegation has at most %d bytes, this one has %d: ask for less at a time (budget: %s)", kinds.MaxQuestion, n, budget.Questions.Name)
	}
	if err := s.Space.CheckRoom(sender.ID); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, query.QueryTimeout())
	defer cancel()
	q, err := s.Delegations.BeginQuestion(ctx, t, env, inbox.HashMessage(env))
	if err != nil {
		return nil, err
	}
	defer s.Delegations.LeaveQuestion(q)
	for {
		answered, changed, failure := s.Delegations.WatchQuestion(t, q)
		switch {
		case answered:
			return s.Delegations.ReadAnswer(ctx, t, q)
		case failure != nil:
			return nil, failure
		}
		s.askDelegator(ctx, sender, t, q, env)
		select {
		case <-changed:
		case <-s.Drain.Ending(): // and would wait for this
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
func (s *Service) askDelegator(ctx context.Context, sender identity.Peer, t *delegation.Delegation, q *delegation.Question, env *wire.Envelope) {
	if t.Agent == "" {
		return
	}
	takers := s.Registry.FindTakers(env.Kind, "", t.Agent)
	if len(takers) == 0 || !s.Delegations.ClaimQuestion(q, takers[0]) {
		return
	}
	asking, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s.Known.BeginQuery(env, takers[0], time.Time{}) // before its sender may give up: from then on nothing else keeps its id from other peers
	s.Calls.Go(func() {
		defer cancel(nil)
		defer func() {
			answered, _, _ := s.Delegations.WatchQuestion(t, q)
			s.Known.EndQuery(env, answered)
		}()
		s.Delegations.EndAsking(t, q, s.askAgent(asking, sender, t, q, takers[0], env))
	})
	s.Calls.Go(func() {
		for {
			answered, changed, failure := s.Delegations.WatchQuestion(t, q)
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

// errQuestionOver is the cause that ends an agent's work on a question that was answered by somebody else or no
// longer exists.
var errQuestionOver = kinds.Errorf(kinds.Cancelled, "the question was answered by somebody else, or is no more")

// askAgent asks an agent a question and records its answer. The error is for those that wait for
// an answer and may ask again; nil if they go on waiting.
func (s *Service) askAgent(ctx context.Context, sender identity.Peer, t *delegation.Delegation, q *delegation.Question, a *registry.Agent, env *wire.Envelope) error {
	in := &client.Inbound{Envelope: *env, Name: sender.Name, Delegation: s.Describe(ctx, t, false)}
	left := t.TimeLeft()
	if !t.Deadline.IsZero() {
		in.DeadlineMS = uint64(max(left, time.Millisecond).Milliseconds())
	}
	asking := ctx
	if a.IsSession() {
		s.Known.AddShown(env, a.KeyHash) // the session may act upon it when it has answered
		var decline context.CancelCauseFunc
		asking, decline = context.WithCancelCause(ctx)
		defer decline(nil)
		defer s.Sessions.BeginExchange(a, sender, in, func() { decline(sessions.NewDeclinedError(env.Kind)) })()
		defer func() {
			if answered, _, _ := s.Delegations.WatchQuestion(t, q); answered {
				s.Sessions.Waker.NoteAnswer(a.Name, sender.ID)
			}
		}()
	}
	var answer wire.Payload
	err := agents.Call(asking, left+registry.ConfirmTime, a, in, &answer) // the end of the delegation is the first to end it
	if err == nil {
		err = s.recordAnswer(ctx, t, q, answer)
	}
	e := kinds.AsError(err)
	switch {
	case err == nil, ctx.Err() != nil, t.TimeLeft() <= 0, e.Code == kinds.NoAgent, e.Code == kinds.UnknownKind, errors.Is(err, errAnsweredBefore):
		return nil // somebody else may answer, or has, or the delegation ends
	case e.Retryable:
		return e
	}
	if err := s.Delegations.CloseQuestion(ctx, t, q, s.Agents.MaskLocalError(env, err)); err != nil {
		s.Log.Error("a question about a delegation", "id", t.ID, "err", err)
	}
	return nil
}

// errAnsweredBefore: the question already has another answer.
var errAnsweredBefore = ownwords.New("the question was answered before")

// recordAnswer checks an answer to a question and records it. It may use the reserve, because the answer is from
// the daemon's own agents.
func (s *Service) recordAnswer(ctx context.Context, t *delegation.Delegation, q *delegation.Question, answer wire.Payload) error {
	if err := kinds.CheckPayload(kinds.KindResponse, answer); err != nil {
		return kinds.Errorf(kinds.Internal, "the agent's answer is not valid: %v", err)
	}
	if n := len(answer); n > kinds.MaxQuestion {
		return newLongAnswerError(n)
	}
	err := s.Space.RunWithReserve(func() error { return s.Delegations.RecordAnswer(ctx, t, q, answer) })
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
func (s *Service) serveAnswer(ctx context.Context, c *local.Conn, p *client.AnswerParams) (any, error) {
	t, q, ok := s.Delegations.FindQuestion(c.GuestCredential(), p.Ref)
	if !ok {
		return nil, kinds.Errorf(kinds.NotFound, "ref: %s names no question that waits for an answer, nor a delegation about which one does: see tasks", p.Ref)
	}
	if err := s.Outgoing.CheckMayReport(c, t); err != nil {
		return nil, err
	}
	if err := kinds.CheckPayload(kinds.KindResponse, p.Payload); err != nil {
		return nil, err
	}
	if n := len(p.Payload); n > kinds.MaxQuestion {
		return nil, newLongAnswerError(n)
	}
	err := s.recordAnswer(ctx, t, q, p.Payload)
	if errors.Is(err, errAnsweredBefore) {
		return nil, kinds.Errorf(kinds.NotFound, "ref: the question %s was answered before, or is no more", q.ID)
	}
	if err != nil {
		return nil, err
	}
	return &client.Answered{ID: q.ID, Delegation: t.ID}, nil
}
