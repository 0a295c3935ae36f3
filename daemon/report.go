package daemon

import (
	"context"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// report holds a result or an error of a delegation: a partial result, or the end.
type report struct {
	isPartial bool
	partial   delegation.Partial
	ending    delegation.Ending
}

// parseReport reads a result or an error.
func parseReport(env *wire.Envelope) (what report, err error) {
	what.ending = delegation.Ending{State: client.TaskFailed, ID: env.ID, Payload: env.Payload}
	if env.Kind == kinds.KindError {
		p, err := kinds.ParsePayload[kinds.Error](env.Payload)
		if err != nil {
			return what, err
		}
		what.ending.Outcome = p.Message
		if p.IsDeclined() {
			what.ending.Outcome = "declined: " + p.Message
		}
		return what, nil
	}
	p, err := kinds.ParsePayload[kinds.Result](env.Payload)
	if err != nil {
		return what, err
	}
	what.ending.Outcome = p.Outcome
	switch p.Status {
	case "partial":
		what.isPartial = true
		what.partial = delegation.Partial{Payload: env.Payload, Progress: p.Progress, Message: p.Message}
	case "completed":
		what.ending.State = client.TaskCompleted
	}
	return what, nil
}

// recordReport enters a result or error and reports whether the task was open.
func (d *Daemon) recordReport(ctx context.Context, t *delegation.Delegation, what report) (open bool, err error) {
	if what.isPartial {
		return d.delegations.RecordPartial(ctx, t, what.partial)
	}
	return d.delegations.EndDelegation(ctx, t, what.ending)
}
