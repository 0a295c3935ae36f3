package tasks

import (
	"context"
	"errors"
	"net"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/sessions"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// HandleDelegate hands a task to an agent and enters it as taken, on disk before the
// ack leaves. A connection that is lost meanwhile does not end it: its sender does
// not know then, and may repeat; only a sender that gives up cancels.
func (s *Service) HandleDelegate(ctx context.Context, sender identity.Peer, env *wire.Envelope, hash inbox.Digest) (inbox.Outcome, bool) {
	if t := s.Delegations.Find(client.Taken, sender.ID, env.ID); t != nil {
		return s.answerRepeatedDelegate(ctx, t, hash), true
	}
	p, err := kinds.ParsePayload[kinds.Delegate](env.Payload)
	if err != nil {
		return inbox.Refuse(err)
	}
	if err := s.Permissions.CheckAllowed(sender, env.Kind, p.Domain); err != nil {
		return inbox.Refuse(err)
	}
	if err := s.Drain.CheckTakesWork(); err != nil {
		return inbox.Refuse(err)
	}
	if err := s.Space.CheckRoom(sender.ID); err != nil {
		return inbox.Refuse(err)
	}
	place, err := s.Agents.ReservePlace(sender.ID, env.Kind, p.Domain, env.Agent)
	if err != nil {
		return inbox.Refuse(err)
	}
	defer s.Registry.ReleasePlace(place)
	a := place.Agent
	t := delegation.NewDelegation(client.Taken, sender.ID, env, hash, p, registry.Credential{Name: a.Name, KeyHash: a.KeyHash})
	entry, fresh, err := s.Delegations.AddDelegation(ctx, t, p.Task)
	if err != nil {
		return inbox.Refuse(err)
	}
	if !fresh {
		return s.answerRepeatedDelegate(ctx, entry, hash), true
	}

	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		if isResetBySender(ctx) {
			cancel(nil)
		}
	})()
	var ack wire.Payload
	in := &client.Inbound{Envelope: *env, Name: sender.Name, DeadlineMS: p.DeadlineMS}
	accepted := false
	if a.IsSession() {
		declined := sessions.NewDeclinedError(env.Kind) // not made when it is needed: that would keep env until then
		end := s.Sessions.BeginExchange(a, sender, in, func() {
			cancel(declined)
			s.Sessions.DeclineTask(t, a, declined)
		})
		defer func() {
			if !accepted {
				end()
			}
		}()
	}
	if err := agents.Call(running, kinds.AckDeadline, a, in, &ack); err != nil {
		return inbox.Outcome{Err: s.endUnacknowledgedTask(ctx, t, err)}, true
	}
	said, err := parseAck(ack)
	if err != nil {
		return inbox.Outcome{Err: s.endUnacknowledgedTask(ctx, t, err)}, true
	}
	if err := s.Delegations.RecordAck(ctx, t, said.Accepted, ack, place); err != nil {
		s.Log.Error("delegation", "id", t.ID, "err", err) // whose words are for this machine
		return inbox.Outcome{Err: s.endUnacknowledgedTask(ctx, t, kinds.Errorf(kinds.Internal, "delegate: the receiver failed: its log says why"))}, true
	}
	accepted = said.Accepted
	if e, ok := errors.AsType[*kinds.Error](context.Cause(running)); ok && e.IsDeclined() {
		s.Sessions.DeclineTask(t, a, e) // the owner has said no while this was written
	}
	s.Delegations.UpdateAgentPresence(a.Name) // it may have left while this was written
	if a.IsSession() && s.Registry.FindByName(a.Name) == nil && !s.Drain.IsEnding() {
		s.Delegations.EndForLostSession(a.Name)
	}
	return inbox.Outcome{Ack: ack}, true
}

// endUnacknowledgedTask ends a taken task that has no ack, and returns why.
func (s *Service) endUnacknowledgedTask(ctx context.Context, t *delegation.Delegation, err error) error {
	e := kinds.AsError(err)
	state := client.TaskFailed
	if e.Code == kinds.Cancelled {
		state = client.TaskCancelled
	}
	if _, err := s.Delegations.EndDelegation(ctx, t, delegation.Ending{State: state, Outcome: e.Message, Payload: kinds.EncodePayload(e)}); err != nil {
		s.Log.Error("delegation", "id", t.ID, "err", err)
	}
	return e
}

// answerRepeatedDelegate answers the repeat of a delegation that the table remembers.
func (s *Service) answerRepeatedDelegate(ctx context.Context, t *delegation.Delegation, hash inbox.Digest) inbox.Outcome {
	if t.Content != hash {
		return inbox.Outcome{Err: kinds.Errorf(kinds.Invalid, "id: %s was used for another delegate: a repeat has the same content, anything else needs an id of its own", t.ID)}
	}
	if !s.Delegations.Status(t).Acked {
		return inbox.Outcome{Err: kinds.Errorf(kinds.Internal, "the receiver was interrupted before its agent had answered: look there whether the task was begun")}
	}
	ack, err := s.Delegations.ReadAck(ctx, t)
	if err != nil {
		return inbox.Outcome{Err: err}
	}
	return inbox.Outcome{Ack: ack}
}

// parseAck checks the answer of an agent to delegate or cancel.
func parseAck(p wire.Payload) (*kinds.Ack, error) {
	if err := kinds.CheckPayload(kinds.KindAck, p); err != nil {
		return nil, kinds.Errorf(kinds.Internal, "the agent's answer is not valid: %v", err)
	}
	return kinds.ParsePayload[kinds.Ack](p)
}

// encodeTooLateAck returns the answer to a cancel that comes when the delegation is over.
func encodeTooLateAck(state client.TaskState) wire.Payload {
	return kinds.EncodePayload(&kinds.Ack{Code: kinds.NotFound, Message: "the delegation is " + string(state) + " already"})
}

// HandleCancel passes a cancellation to the agent that has the task. If that agent is away, only
// the entry is cancelled: what the agent sends later is not found.
func (s *Service) HandleCancel(ctx context.Context, sender identity.Peer, env *wire.Envelope) (inbox.Outcome, bool) {
	t := s.Delegations.Find(client.Taken, sender.ID, *env.Ref)
	if t == nil {
		return inbox.Refuse(delegation.NewNotFoundError(*env.Ref))
	}
	if err := s.Permissions.CheckAllowed(sender, env.Kind, ""); err != nil {
		return inbox.Refuse(err)
	}
	if state := s.Delegations.Status(t).State; state.IsFinal() {
		return inbox.Outcome{Ack: encodeTooLateAck(state)}, true
	}
	ack := kinds.EncodePayload(&kinds.Ack{Accepted: true})
	if a := s.Registry.FindByName(t.Agent); a != nil {
		s.Repeats.AddTaker(env.From, env.ID, a.KeyHash)
		if err := agents.Call(ctx, kinds.AckDeadline, a, &client.Inbound{Envelope: *env, Name: sender.Name, Delegation: s.Describe(ctx, t, false)}, &ack); err != nil {
			return inbox.Outcome{Err: err}, false // the agent may have it; cancelling twice does no harm
		}
	}
	said, err := parseAck(ack)
	if err != nil {
		return inbox.Outcome{Err: err}, false
	}
	if said.Accepted {
		if ack, err = s.endCancelledTask(ctx, t, env, ack); err != nil {
			return inbox.Outcome{Err: err}, false
		}
	}
	return inbox.Outcome{Ack: ack}, true
}

// endCancelledTask ends a task by the cancel env, to which ack is the answer, with the reserve to write
// on. It returns the answer for whoever cancels: ack, unless the task has ended otherwise meanwhile.
func (s *Service) endCancelledTask(ctx context.Context, t *delegation.Delegation, env *wire.Envelope, ack wire.Payload) (wire.Payload, error) {
	outcome := "cancelled"
	if c, err := kinds.ParsePayload[kinds.Cancel](env.Payload); err == nil && c.Reason != "" {
		outcome = c.Reason
	}
	if of := (client.Task{Direction: t.Direction, State: client.TaskCancelled, Outcome: outcome}); of.IsAbandoned() {
		outcome = "cancelled: " + outcome // only a cancel without an ack abandons it
	}
	err := s.Space.RunWithReserve(func() error {
		_, err := s.Delegations.EndDelegation(ctx, t, delegation.Ending{State: client.TaskCancelled, ID: env.ID, Outcome: outcome})
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.Delegations.WaitForEnd(ctx, t, nil, nil); err != nil { // another end is written just now
		return nil, kinds.NewErrorFromCause(err)
	}
	if state := s.Delegations.Status(t).State; state.IsFinal() && state != client.TaskCancelled {
		return encodeTooLateAck(state), nil
	}
	return ack, nil
}

func (s *Service) serveResult(ctx context.Context, c *local.Conn, p *client.ResultParams) (any, error) {
	return s.sendReport(ctx, c, kinds.KindResult, p)
}

func (s *Service) serveError(ctx context.Context, c *local.Conn, p *client.ResultParams) (any, error) {
	return s.sendReport(ctx, c, kinds.KindError, p)
}

// sendReport sends a result or an error of a taken task to the peer that gave it. Thread and
// hops follow from ref. The task is over when that peer has the report.
func (s *Service) sendReport(ctx context.Context, c *local.Conn, kind string, p *client.ResultParams) (any, error) {
	t := s.Delegations.FindByID(c.GuestCredential(), p.Ref, client.Taken)
	if t == nil {
		return nil, kinds.Errorf(kinds.NotFound, "ref: %s names no delegation that was taken here: it never came, or was long ago", p.Ref)
	}
	if err := s.Outgoing.CheckMayReport(c, t); err != nil {
		return nil, err
	}
	env := s.newReport(t, kind, p.Payload)
	env.FromAgent = c.Credential().Name
	if !p.ID.IsZero() {
		env.ID = p.ID
	}
	if status := s.Delegations.Status(t); status.State.IsFinal() && status.EndID != env.ID {
		return nil, kinds.Errorf(kinds.NotFound, "ref: the delegation %s is %s already: nothing more is expected", p.Ref, status.State)
	}
	message, err := kinds.CheckEnvelope(env)
	if err != nil {
		return nil, err
	}
	what, err := delegation.ParseReport(env)
	if err != nil {
		return nil, err
	}
	done, err := s.awaitReportTurn(ctx, t, env, what)
	switch {
	case errors.Is(err, delegation.ErrReplaced):
		return &client.Receipt{ID: env.ID, State: client.Replaced}, nil
	case err != nil:
		return nil, err
	}
	defer done()
	state, err := s.Node.Send(ctx, message, true)
	if e, ok := errors.AsType[*kinds.Error](err); ok {
		if e.Code == kinds.NotFound && e.From != "" { // the peer has ended it
			if _, err := s.Delegations.EndDelegation(ctx, t, delegation.Ending{State: client.TaskCancelled, ID: env.ID, Outcome: e.Message, Payload: p.Payload}); err != nil {
				return nil, err
			}
		}
		return nil, e
	}
	// The peer has the report: to record that here too is worth the reserve.
	if err := s.Space.RunWithReserve(func() error { _, err := s.Delegations.RecordReport(ctx, t, what); return err }); err != nil {
		return nil, err
	}
	return &client.Receipt{ID: env.ID, State: client.ReceiptState(state)}, nil
}

// awaitReportTurn blocks until a result or an error may be sent, and returns the function that
// is called when it has been. Partial results leave one after the other, at their pace, and the
// end leaves after them.
func (s *Service) awaitReportTurn(ctx context.Context, t *delegation.Delegation, env *wire.Envelope, what delegation.Report) (done func(), err error) {
	if !what.IsPartial {
		done, err = s.Delegations.FlushPartials(ctx, t)
	} else {
		if n := len(env.Payload); n > kinds.MaxPartial {
			return nil, kinds.Errorf(kinds.TooLarge, "result: a partial one has at most %d bytes, this one has %d: send less, or keep it for the final one", kinds.MaxPartial, n)
		}
		done, err = s.Delegations.BeginPartial(ctx, t)
	}
	if _, coded := errors.AsType[*kinds.Error](err); err == nil || coded || errors.Is(err, delegation.ErrReplaced) {
		return done, err
	}
	return nil, kinds.NewErrorFromCause(err).WithDelivered(kinds.DeliveredNo)
}

// newReport returns an envelope about a taken task, for the peer that gave it.
func (s *Service) newReport(t *delegation.Delegation, kind string, payload wire.Payload) *wire.Envelope {
	env := wire.NewEnvelope(s.Self, t.Peer, kind, payload)
	env.Ref, env.Thread, env.Hops, env.Trace = &t.ID, t.Chain.Thread, t.Chain.Hops, t.Chain.Trace
	return env
}

// reportLostTask sends the peer that gave a task the error that its agent is lost. It
// returns an error if that is to be tried again.
func (s *Service) reportLostTask(ctx context.Context, t *delegation.Delegation) error {
	shown, err := s.Delegations.DescribeTask(ctx, t, true)
	if err != nil { // the disk fails, or the daemon stops
		s.Log.Warn("a lost delegation could not be read yet", "id", t.ID, "peer", t.Peer.Label(), "err", err)
		return err
	}
	env := s.newReport(t, kinds.KindError, shown.Result)
	env.ID = s.Delegations.Status(t).EndID
	message, err := s.Outgoing.Check(env, new(client.Head))
	if err == nil {
		_, err = s.Node.Send(ctx, message, true)
	}
	if e := kinds.AsError(err); err != nil && (e.Retryable || e.Code == kinds.NotTrusted) {
		s.Log.Warn("a lost delegation could not be reported yet", "id", t.ID, "peer", t.Peer.Label(), "err", err)
		return err
	}
	return nil // taken, or not wanted
}

// Describe returns a task as the local API shows it; payloads adds the results. A
// failing disk leaves out the text.
func (s *Service) Describe(ctx context.Context, t *delegation.Delegation, payloads bool) *client.Task {
	shown, err := s.Delegations.DescribeTask(ctx, t, payloads)
	if err != nil {
		s.Log.Error("read a delegation", "id", t.ID, "err", err)
	}
	shown.Peer = s.Trust.NameOf(t.Peer)
	if q := shown.Question; q != nil && len(shown.Partial)+wire.MaxJSONLength(q.Text) > s.MaxListBytes() {
		shown.Partial = nil // both are too long for one line
	}
	return shown
}

// isResetBySender reports whether the sender reset its exchange, as opposed to a
// connection that was lost under it: those errors all are net.ErrClosed too.
func isResetBySender(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), net.ErrClosed)
}
