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

// abandonTask ends a given task here alone, with the reserve to write on, because the cancel env has
// brought no ack of the peer, but why. The peer gets another cancel when it can take one: the first may have
// been answered there, and the second says that the task was abandoned. It returns why if whoever cancels has given up.
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

// reportAbandonedTask cancels a given task at its peer that was abandoned. It returns an error if that is to be
// tried again. What the peer says changes nothing here.
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

// isNoAnswerToCancel reports whether a cancel that has ended so is worth another attempt: the peer has said
// nothing, or could not take it then. As one that failed may not have cancelled anything, internal is no answer.
func isNoAnswerToCancel(e *kinds.Error) bool {
	switch e.Code {
	case kinds.NotTrusted, kinds.Internal, kinds.Cancelled:
		return true
	}
	return e.From == "" || e.Retryable
}
