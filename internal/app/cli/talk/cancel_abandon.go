package talk

import (
	"errors"
	"fmt"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// hintAtAbandoning returns the error of a cancel, with what helps if the other side has said nothing.
func hintAtAbandoning(err error, id wire.MessageID, abandoned bool) error {
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok || abandoned || e.From != "" || e.Code != kinds.Unreachable && e.Code != kinds.Timeout {
		return err
	}
	return frame.WithHint(err, fmt.Sprintf("the delegation stays open: acpctl cancel %s --abandon ends it only here", id))
}

// printAbandoned prints that a delegation has ended only here. It prints the reason for scripts too, because nobody
// knows what becomes of the work.
func (v *verbs) printAbandoned(answer *client.CancelAnswer) error {
	if !v.JSON {
		v.Warn("the other side has not answered: %s: it may work on; the cancellation is sent until it answers", answer.Abandoned)
	}
	return v.PrintData(answer, func() { v.PrintLine("abandoned") })
}
