package tasks

import (
	"context"
	"errors"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// abandonPatience is how long a peer has to answer a cancel before the delegation is abandoned, and
// to take the cancel of one that was.
const abandonPatience = kinds.ReceiptDeadline

// abandonTask ends a given task only here, because the peer has not acknowledged the cancel env; why is the error of
// that cancel. It may use the reserve to write. The peer gets another cancel when it can take one: the peer may have
// answered the first one, and the second has the reason that the task was abandoned. abandonTask returns why if the
// caller that cancels has given up.
func (s *Service) abandonTask(ctx context.Context, t *delegation.Delegation, env *wire.Envelope, why error) (*client.CancelAnswer, error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, why
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonPatience)
	defer cancel()
	reason := ""
	if c, err := kinds.ParsePayload[kinds.Cancel](env.Payload); err == nil {
		reason = c.Reason
	}
	if err := s.Space.RunWithReserve(func() error {
		_, err := s.Delegations.EndDelegation(ctx, t, delegation.NewAbandonedEnding(wire.NewMessageID(), reason))
		return err
	}); err != nil {
		return nil, err
	}
	if err := s.Delegations.WaitForEnd(ctx, t, nil, nil); err != nil { // another end is written just now
		return nil, kinds.NewErrorFromCause(err)
	}
	if status := s.Delegations.Status(t); status.State != client.TaskCancelled {
		return &client.CancelAnswer{Ref: t.ID, Payload: encodeTooLateAck(status.State)}, nil
	}
	return &client.CancelAnswer{Ref: t.ID, Abandoned: kinds.AsError(why).Message}, nil
}

// ReportEnd tells the peer of a delegation how that has ended here. It returns an error if that is to be
// tried again.
func (s *Service) ReportEnd(ctx context.Context, t *delegation.Delegation) error {
	if t.Direction == client.Given {
		return s.reportAbandonedTask(ctx, t)
	}
	return s.reportLostTask(ctx, t)
}

// reportAbandonedTask cancels an abandoned task at its peer. It returns an error if that is to be
// tried again. The peer's answer changes nothing here.
func (s *Service) reportAbandonedTask(ctx context.Context, t *delegation.Delegation) error {
	shown, err := s.Delegations.DescribeTask(ctx, t, false)
	if err != nil { // the disk fails, or the daemon stops
		return err
	}
	env := s.newReport(t, kinds.KindCancel, kinds.EncodePayload(&kinds.Cancel{Reason: shown.Outcome}))
	env.ID, env.FromAgent = s.Delegations.Status(t).EndID, t.Agent
	request, err := kinds.CheckEnvelope(env)
	if err != nil {
		s.Log.Error("an abandoned delegation cannot be cancelled", "id", t.ID, "peer", t.Peer.Label(), "err", err)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, abandonPatience)
	defer cancel()
	_, _, err = s.Node.Exchange(ctx, request)
	if err != nil && isNoAnswerToCancel(kinds.AsError(err)) {
		s.Log.Debug("an abandoned delegation could not be cancelled yet", "id", t.ID, "peer", t.Peer.Label(), "err", err)
		return err
	}
	return nil
}

// isNoAnswerToCancel reports whether a cancel that ended with e is worth another attempt: the peer has not answered,
// or could not take it then. The code internal is not an answer, because a cancel that failed may not have cancelled
// anything.
func isNoAnswerToCancel(e *kinds.Error) bool {
	switch e.Code {
	case kinds.NotTrusted, kinds.Internal, kinds.Cancelled:
		return true
	}
	return e.From == "" || e.Retryable
}
