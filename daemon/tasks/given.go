package tasks

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/known"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// serveDelegate gives a task to a peer: the entry exists before the first byte leaves,
// and the ack is on disk before the caller has it. A repeat of a call whose ack is
// known gets that; any other is sent again, and the peer knows it by its id.
func (s *Service) serveDelegate(ctx context.Context, c *local.Conn, p *client.DelegateParams) (any, error) {
	began := time.Now()
	request, err := s.Outgoing.ComposeRequest(ctx, c, kinds.KindDelegate, &p.Head, p.To, p.Payload)
	if err != nil {
		return nil, err
	}
	env := request.Envelope
	what, err := kinds.ParsePayload[kinds.Delegate](p.Payload)
	if err != nil {
		return nil, err
	}
	if !p.Guessed && s.Delegations.IsUnwanted(p.Parent) && s.Delegations.FindByID(nil, env.ID, client.Given) == nil { // else it is a repeat
		return nil, known.NewParentEndedError(kinds.DeliveredNo)
	}
	if err := s.Outgoing.CountSend(ctx, &p.Head, env); err != nil {
		return nil, err
	}
	as := c.Credential()
	var answer *client.DelegateAnswer
	err = s.Kept.SendOrKeep(ctx, env, as, p.KeepMS, func() error {
		answer, err = s.giveTask(ctx, request, what, as, givenBy{isGuest: c.IsGuest, began: began, keeps: p.KeepMS > 0})
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// GiveKept gives a task that was kept, as the agent that wanted that. If it returns an error that says that nothing has
// arrived, the table does not have the task.
func (s *Service) GiveKept(ctx context.Context, request kinds.Checked, as registry.Credential) (*kinds.Ack, error) {
	what, err := kinds.ParsePayload[kinds.Delegate](request.Payload)
	if err != nil {
		return nil, err
	}
	answer, err := s.giveTask(ctx, request, what, as, givenBy{began: time.Now(), keeps: true})
	if err != nil {
		return nil, err
	}
	return kinds.ParsePayload[kinds.Ack](answer.Payload)
}

// givenBy says how a task is given.
type givenBy struct {
	isGuest bool
	began   time.Time // when the call did
	keeps   bool      // a task that did not arrive is kept elsewhere: the table drops it, also if the peer has said so
}

// giveTask enters a task, and sends it.
func (s *Service) giveTask(ctx context.Context, request kinds.Checked, what *kinds.Delegate, as registry.Credential, call givenBy) (*client.DelegateAnswer, error) {
	env, hash := request.Envelope, inbox.HashMessage(request.Envelope)
	t := delegation.NewDelegation(client.Given, env.To, env, hash, what, as)
	t.Parent, t.Guessed = request.Parent, request.Guessed
	t, fresh, err := s.Delegations.AddDelegation(ctx, t, what.Task)
	if err != nil && call.keeps {
		return nil, kinds.Errorf(kinds.Overloaded, "%v", err).WithDelivered(kinds.DeliveredNo)
	}
	if err != nil {
		return nil, err
	}
	given := func(ack wire.Payload) *client.DelegateAnswer {
		return &client.DelegateAnswer{ID: env.ID, From: env.To, Payload: ack}
	}
	if !fresh {
		if t.Content != hash || call.isGuest && !s.Delegations.IsOwnedBy(t, as) {
			return nil, inbox.NewReusedIDError(env)
		}
		env.Trace = t.Chain.Trace
		if status := s.Delegations.Status(t); status.Acked {
			ack, err := s.Delegations.ReadAck(ctx, t)
			if err != nil {
				return nil, err
			}
			s.Log.Debug("repeat", "id", env.ID, "state", status.State)
			return given(ack), nil
		}
		if err := s.Delegations.SetState(ctx, t, client.TaskSent); err != nil {
			return nil, err
		}
	}

	end := call.began.Add(kinds.AckDeadline)
	if request.Deadline > 0 {
		end = call.began.Add(min(kinds.AckDeadline, request.Deadline))
	}
	if !t.Deadline.IsZero() && t.Deadline.Before(end) { // it was given before
		end = t.Deadline
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	defer s.Delegations.OnInterrupt(t, abort)()
	reply, _, err := s.Node.Exchange(ctx, request)
	if err != nil {
		return nil, s.recordFailedDelegate(ctx, t, fresh, call.keeps, err)
	}
	ack, err := kinds.ParsePayload[kinds.Ack](reply.Payload)
	if err != nil {
		return nil, err
	}
	if err := s.Delegations.RecordAck(ctx, t, ack.Accepted, reply.Payload, nil); err != nil {
		return nil, err
	}
	answer := given(reply.Payload)
	answer.FromAgent = reply.FromAgent
	return answer, nil
}

// errCancelled is the cause with which the exchange of a delegation ends that is cancelled
// before its ack.
var errCancelled = kinds.Errorf(kinds.Cancelled, "the delegation was cancelled before it was accepted")

// recordFailedDelegate records what is known of a delegation that has no ack, and returns
// the error for the caller.
func (s *Service) recordFailedDelegate(ctx context.Context, t *delegation.Delegation, fresh, keeps bool, err error) error {
	e := kinds.AsError(err)
	var fail error
	switch {
	case known.HasParentEnded(ctx):
		e, fail = known.NewParentEndedError(e.Delivered()), s.Delegations.EndUnwanted(ctx, t)
	case errors.Is(context.Cause(ctx), errCancelled):
		e = errCancelled
		_, fail = s.Delegations.EndDelegation(ctx, t, delegation.Ending{State: client.TaskCancelled, Outcome: e.Message})
	case fresh && s.Delegations.Status(t).State == client.TaskSent && (e.Delivered() == kinds.DeliveredNo && (keeps || e.From == "") || e.From == "" && e.Code == kinds.Invalid):
		fail = s.Space.RunWithReserve(func() error { return s.Delegations.DeleteUnsent(ctx, t) }) // it never left: as if it had never been
	case e.Code == kinds.NotTrusted: // nothing will come of an earlier attempt either
		fail = s.endUntrustedDelegation(ctx, t, e.Message)
	case e.From != "" && (e.Delivered() == kinds.DeliveredNo || e.Delivered() == "" && e.Code != kinds.Internal && e.Code != kinds.Timeout && e.Code != kinds.Cancelled):
		fail = s.Delegations.RecordRefusal(ctx, t, e.Message)
	default: // a failed receiver may have begun it, and so may an earlier attempt
		fail = s.Delegations.SetState(ctx, t, client.TaskUnknown)
	}
	if fail != nil {
		s.Log.Error("delegation", "id", t.ID, "err", fail)
	}
	return e
}

// serveCancel ends a delegation that was given. While its exchange has no answer, serveCancel ends that exchange;
// later it asks the peer. Without an ack of the peer, the delegation goes on, unless p abandons it.
func (s *Service) serveCancel(ctx context.Context, c *local.Conn, p *client.CancelParams) (any, error) {
	if answer, err := s.withdraw(ctx, c, p); answer != nil || err != nil {
		return answer, err
	}
	t := s.Delegations.FindByID(c.GuestCredential(), p.Ref, client.Given)
	to := p.To
	if to == "" || c.IsGuest {
		if t == nil && c.IsGuest {
			return nil, kinds.Errorf(kinds.NotFound, "ref: %s names no delegation that this agent has given: see tasks", p.Ref)
		}
		if t == nil {
			return nil, kinds.Errorf(kinds.NotFound, "ref: %s names no delegation of this daemon: say in `to` whom it went to", p.Ref)
		}
		to = cmp.Or(to, t.Peer.String())
	}
	patience := kinds.AckDeadline
	if p.Abandon {
		if t == nil {
			return nil, kinds.Errorf(kinds.NotFound, "ref: %s names no delegation of this daemon: there is nothing to abandon", p.Ref)
		}
		patience = abandonPatience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	env, whom, err := s.Outgoing.ComposeEnvelope(ctx, c, kinds.KindCancel, &p.Head, to, p.Payload)
	if err != nil {
		return nil, err
	}
	env.Ref = &p.Ref
	if t != nil && t.Peer != whom.ID {
		return nil, kinds.Errorf(kinds.NotFound, "ref: the delegation %s went to %s, not to %s", p.Ref, s.Trust.NameOf(t.Peer), whom.Name)
	}
	if t != nil {
		if state := s.Delegations.Status(t).State; state.IsFinal() {
			return &client.CancelAnswer{Ref: p.Ref, Payload: encodeTooLateAck(state)}, nil
		}
		if s.Delegations.InterruptExchange(t, errCancelled) {
			return &client.CancelAnswer{Ref: p.Ref, Payload: kinds.EncodePayload(&kinds.Ack{Accepted: true})}, nil
		}
		env.Thread, env.Hops, env.Trace = t.Chain.Thread, t.Chain.Hops, t.Chain.Trace
	}
	request, err := s.Outgoing.Check(env, &p.Head)
	if err != nil {
		return nil, err
	}
	reply, _, err := s.Node.Exchange(ctx, request)
	if err != nil {
		e, ok := errors.AsType[*kinds.Error](err)
		switch isForgotten := ok && e.Code == kinds.NotFound && e.From != ""; {
		case t != nil && isForgotten: // nobody works on it there: it never came, or is forgotten
			if _, err := s.endCancelledTask(ctx, t, env, nil); err != nil {
				return nil, err
			}
		case p.Abandon && !isForgotten:
			return s.abandonTask(ctx, t, env, err)
		}
		return nil, err
	}
	ack, err := kinds.ParsePayload[kinds.Ack](reply.Payload)
	if err != nil {
		return nil, err
	}
	said := reply.Payload
	if t != nil && ack.Accepted {
		if said, err = s.endCancelledTask(ctx, t, env, said); err != nil {
			return nil, err
		}
	}
	return &client.CancelAnswer{Ref: p.Ref, Payload: said}, nil
}

// withdraw ends a message that is kept. It returns nil if ref names none.
func (s *Service) withdraw(ctx context.Context, c *local.Conn, p *client.CancelParams) (*client.CancelAnswer, error) {
	why, err := kinds.ParsePayload[kinds.Cancel](p.Payload)
	if err != nil {
		return nil, err
	}
	t, err := s.Kept.Withdraw(ctx, c.GuestCredential(), c.Credential().Name, p.Ref, why.Reason)
	switch {
	case t == nil || err != nil:
		return nil, err
	case t.State == client.TaskWithdrawn:
		return &client.CancelAnswer{Ref: p.Ref, Payload: kinds.EncodePayload(&kinds.Ack{Accepted: true})}, nil
	}
	ack := &kinds.Ack{Code: kinds.NotFound, Message: "it has ended already: " + string(t.State)}
	if t.State == client.TaskUnknown {
		ack.Message = t.Outcome
	}
	return &client.CancelAnswer{Ref: p.Ref, Payload: kinds.EncodePayload(ack)}, nil
}

// HandleReport takes a result, or an error, of a delegation that was given to the
// sender: into the table first, on disk, then to the agent that delegated, else to
// all, else to the inbox.
func (s *Service) HandleReport(ctx context.Context, sender identity.Peer, env *wire.Envelope) (inbox.Outcome, bool) {
	t := s.Delegations.Find(client.Given, sender.ID, *env.Ref)
	if t == nil {
		return inbox.Refuse(delegation.NewNotFoundError(*env.Ref))
	}
	if err := s.Permissions.CheckAllowed(sender, env.Kind, ""); err != nil {
		return inbox.Refuse(err)
	}
	if !s.Delegations.Status(t).State.IsFinal() {
		if err := s.Space.CheckRoom(sender.ID); err != nil {
			return inbox.Refuse(err)
		}
	}
	what, err := delegation.ParseReport(env)
	if err != nil {
		return inbox.Refuse(err)
	}
	if what.IsPartial {
		if err := s.checkPartial(sender, t, env); err != nil {
			return inbox.Refuse(err)
		}
		what.Partial.Durable = true // nothing else keeps it if no agent takes it
	}
	open, err := s.Delegations.RecordReport(ctx, t, what)
	if err != nil {
		return inbox.Refuse(err)
	}
	// A repeat of the message that ended it is delivered again: a restart may have lost its outcome.
	if status := s.Delegations.Status(t); !open && status.EndID != env.ID {
		return inbox.Refuse(kinds.Errorf(kinds.NotFound, "ref: the delegation %s is %s already: nothing more is expected", t.ID, status.State))
	}
	takers := s.Registry.FindTakers(env.Kind, "", env.Agent)
	if t.Agent != "" {
		takers = selectReportTakers(takers, t.Agent)
	}
	in := &client.Inbound{Envelope: *env, Name: sender.Name, Delegation: s.Describe(ctx, t, false)}
	if !what.IsPartial {
		return s.Agents.HandOrHold(ctx, sender, env, cmp.Or(t.Agent, env.Agent), "", takers, in)
	}
	if s.Agents.Offer(context.WithoutCancel(ctx), agents.WithoutSessions(takers), in) {
		return inbox.Outcome{State: wire.Handed}, true
	}
	return inbox.Outcome{State: wire.Held}, true // the task has it
}

// checkPartial returns an error if a partial result is too long, or comes too soon after others
// of its delegation.
func (s *Service) checkPartial(sender identity.Peer, t *delegation.Delegation, env *wire.Envelope) error {
	if n := len(env.Payload); n > kinds.MaxPartial {
		s.Permissions.RecordRefusal(s.partials, sender, env.Kind, "too long")
		return kinds.Errorf(kinds.Overloaded, "result: a partial one has at most %d bytes, this one has %d: send less (budget: %s)", kinds.MaxPartial, n, budget.Partials.Name)
	}
	retry, ok := s.Delegations.TakePartial(t)
	if ok {
		return nil
	}
	s.Permissions.RecordRefusal(s.partials, sender, env.Kind, "too many a second")
	e := kinds.Errorf(kinds.Overloaded, "result: too many partial results of the delegation %s in a second: send fewer (budget: %s)", t.ID, budget.Partials.Name)
	e.RetryAfterMS = uint64(retry.Milliseconds())
	return e
}

// selectReportTakers returns the takers of what a delegation of an agent led to: that agent, or,
// if it is away, the agents that the daemon's owner has attached.
func selectReportTakers(takers []*registry.Agent, name string) (others []*registry.Agent) {
	for _, a := range takers {
		if a.Name == name {
			return []*registry.Agent{a}
		}
		if !a.IsGuest {
			others = append(others, a)
		}
	}
	return others
}
