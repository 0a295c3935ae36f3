package client

import (
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// IsOwnReport reports whether a message that the daemon has handed over, or that is in the inbox, is of that daemon itself:
// it says how a message has ended that was kept. No message of a peer is from and to one daemon.
func IsOwnReport(e *wire.Envelope) bool { return e.From == e.To && !e.From.IsZero() }

// OwnReporter is shown as the sender of such a report. A petname has no space.
const OwnReporter = "acpd itself"

// DescribeOwnReport returns what a daemon's own report says, on one line. The words are the daemon's.
func DescribeOwnReport(e *wire.Envelope) string {
	said := "it has arrived"
	if r, err := kinds.ParsePayload[kinds.Error](e.Payload); err == nil && e.Kind == kinds.KindError {
		said = r.Message
	}
	if e.Ref == nil {
		return Line(said)
	}
	return "about the message " + e.Ref.String() + " that was kept: " + Line(said)
}
