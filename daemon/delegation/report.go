package delegation

import (
	"context"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Report holds what a result or an error says of a delegation: a partial result, or the end.
type Report struct {
	IsPartial bool
	Partial   Partial
	Ending    Ending
}

// ParseReport reads a result or an error.
func ParseReport(env *wire.Envelope) (what Report, err error) {
	what.Ending = Ending{State: client.TaskFailed, ID: env.ID, Payload: env.Payload}
	if env.Kind == kinds.KindError {
		p, err := kinds.ParsePayload[kinds.Error](env.Payload)
		if err != nil {
			return what, err
		}
		what.Ending.Outcome = p.Message
		if p.IsDeclined() {
			what.Ending.Outcome = "declined: " + p.Message
		}
		return what, nil
	}
	p, err := kinds.ParsePayload[kinds.Result](env.Payload)
	if err != nil {
		return what, err
	}
	what.Ending.Outcome = p.Outcome
	switch p.Status {
	case "partial":
		what.IsPartial = true
		what.Partial = Partial{Payload: env.Payload, Progress: p.Progress, Message: p.Message}
	case "completed":
		what.Ending.State = client.TaskCompleted
	}
	return what, nil
}

// RecordReport records a result or an error. It reports whether the delegation was open.
func (ts *Table) RecordReport(ctx context.Context, t *Delegation, what Report) (open bool, err error) {
	if what.IsPartial {
		return ts.RecordPartial(ctx, t, what.Partial)
	}
	return ts.EndDelegation(ctx, t, what.Ending)
}
