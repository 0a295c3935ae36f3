package kinds

import (
	"time"

	"github.com/acpd/acpd/wire"
)

// Checked is an envelope that [CheckEnvelope] has accepted, with the few fields of its payload
// by which a daemon routes. Neither the envelope nor the bytes of its payload are
// changed from then on.
type Checked struct {
	*wire.Envelope
	Spec *Kind // what the table says of its kind

	Domain   string        // of a query or delegate
	Topic    string        // of a notify
	Deadline time.Duration // of a query or delegate; 0: the payload names none

	Parent  wire.MessageID // if it was made here: the message from which it follows. It does not travel
	Guessed bool           // its caller has guessed the parent
}

// CheckEnvelope validates an envelope that was made here or has come in: its form, its kind,
// ref if the kind needs it, hops, and the payload. The error is an *Error with the code
// invalid, unknown_kind or loop_detected, and names the field.
func CheckEnvelope(e *wire.Envelope) (Checked, error) {
	if err := e.Check(); err != nil {
		return Checked{}, AsError(err)
	}
	k, ok := FindKind(e.Kind)
	switch {
	case !ok:
		return Checked{}, newUnknownKindError()
	case k.NeedsRef && e.Ref == nil:
		return Checked{}, Errorf(Invalid, "%s: ref: missing: expected the id of the message that it concerns", e.Kind)
	case e.Hops > wire.MaxHops:
		return Checked{}, Errorf(LoopDetected, "%s: hops: message number %d in a chain of agents that call each other; the limit is %d: end the loop at one of them", e.Kind, e.Hops, wire.MaxHops)
	}
	c, err := k.readPayload(e.Payload)
	c.Envelope = e
	return c, err
}

// NewErrorReply returns the error envelope that answers request on its stream: err, which the own daemon has made or
// sanitized, as it may cross to a peer.
func NewErrorReply(request *wire.Envelope, err error) *wire.Envelope {
	return wire.NewReply(request, KindError, EncodePayload(AsError(err).SanitizeForDaemon()))
}
