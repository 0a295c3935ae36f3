package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/wire"
)

// Error is an error in a form that crosses every boundary: it is the payload of
// an error envelope, a refused receipt, the data of a JSON-RPC error and the object that
// acpctl prints. Without From, all of it but Quoted has only words of this program. With From, all of it
// is the peer's words.
type Error struct {
	Code         Code           `json:"code"`
	Message      string         `json:"message"`
	Retryable    bool           `json:"retryable"`
	RetryAfterMS uint64         `json:"retry_after_ms,omitzero"`
	Details      jsontext.Value `json:"details,omitzero"`
	From         string         `json:"from,omitzero"`   // the peer that raised it; set by the own daemon
	Quoted       string         `json:"quoted,omitzero"` // what another program said, such as a command, for a person: at most 200 bytes, on one line; nothing that a peer sends has it

	cause error // see Cause
}

// NewErrorFromWire returns the error in a receipt, an ack or an error payload of a peer.
// The code table decides whether it is retryable: unknown codes are kept and are not. The code
// becomes internal if only the own daemon may raise it, if it does not have the form of a code, or if
// it is an outcome of a message that has not failed.
func NewErrorFromWire(code, message string, retryAfterMS uint64) *Error {
	e := &Error{Code: Code(code), Message: message}
	info := e.Code.Info()
	if info.Local || !e.Code.isWord() || e.Code.isOutcome() {
		info = Internal.Info()
	}
	e.Code, e.Retryable = info.Code, info.Retryable
	if e.Retryable {
		e.RetryAfterMS = retryAfterMS
	}
	return e
}

// SanitizeForPeer returns e as it may cross to or from a peer: with a code as [NewErrorFromWire]
// reads it, internal if it is empty, and without From and details.delivered. An agent
// sets neither: it may answer with the error of another call, and that says nothing about this message. See SanitizeForDaemon
// for the delivered that the peer's daemon sets. But no_agent with delivered unknown stays: it means that
// a session had the message and ended. [CheckEnvelope] refuses the codes that SanitizeForPeer replaces,
// so that none crosses in a payload of an agent's.
func (e *Error) SanitizeForPeer() *Error {
	f := NewErrorFromWire(string(cmp.Or(e.Code, Internal)), e.Message, e.RetryAfterMS)
	f.Details = e.Details
	var details map[string]jsontext.Value
	if d := e.Delivered(); d != "" && !(e.Code == NoAgent && d == DeliveredUnknown) && json.Unmarshal(e.Details, &details) == nil {
		delete(details, "delivered")
		f.Details = EncodePayload(details).Object()
	}
	return f
}

// SanitizeForDaemon is SanitizeForPeer for the error with which a daemon answers, after SanitizeForPeer has removed what an
// agent said of the delivery: it keeps details.delivered no if the code is retryable. See [MarkNotDelivered].
func (e *Error) SanitizeForDaemon() *Error {
	f := e.SanitizeForPeer()
	if f.Retryable && e.Delivered() == DeliveredNo {
		f.Details = e.Details
	}
	return f
}

// AsError returns the *Error in the chain of err, or else a new one:
// invalid for a [wire.FormatError], timeout or cancelled for an ended context, else
// internal. Its message has the words that [ownwords.Of] finds.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	code := Internal
	switch _, malformed := errors.AsType[*wire.FormatError](err); {
	case malformed:
		code = Invalid
	case errors.Is(err, context.DeadlineExceeded):
		code = Timeout
	case errors.Is(err, context.Canceled):
		code = Cancelled
	}
	return Errorf(code, "%s", err)
}

// NewErrorFromCause returns the error for the cause with which a context has ended.
func NewErrorFromCause(cause error) *Error {
	if e, ok := errors.AsType[*Error](cause); ok {
		return e
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		return Errorf(Timeout, "the deadline passed: allow more time")
	}
	return Errorf(Cancelled, "the caller gave up")
}

// Errorf returns an error with a code. It is retryable if the code is. From an argument that is an
// error, the message has only the words that [ownwords.Of] finds; [Error.Cause] returns that error, and
// Quoted is taken from it if it is an error of this daemon.
func Errorf(code Code, format string, args ...any) *Error {
	e := &Error{Code: code, Message: fmt.Sprintf(format, ownwords.Shown(args)...), Retryable: code.Info().Retryable}
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			e.cause = err
			if inner, ok := errors.AsType[*Error](err); ok && inner.From == "" {
				e.Quoted = cmp.Or(e.Quoted, inner.Quoted)
			}
		}
	}
	return e
}

// Cause returns the underlying error for the log at level debug, or nil. The message has at most the words of
// it that may be shown.
func (e *Error) Cause() error { return e.cause }

// OwnWords returns the message, or a replacement if a peer has written it.
func (e *Error) OwnWords() string {
	if e.From != "" {
		return "the peer's error has the code " + string(e.Code)
	}
	return e.Message
}

// WithQuoted sets Quoted to the words of another program, as [ownwords.Quote] shows them, and returns
// e. People see them on a line of their own and models under the cover. They never cross to a peer.
func (e *Error) WithQuoted(text string) *Error {
	e.Quoted = ownwords.Quote(text)
	return e
}

func (e *Error) Error() string { return e.Message + " (" + string(e.Code) + ")" }

// Is reports whether target is an *Error of the same code, so that
// errors.Is(err, &kinds.Error{Code: kinds.Timeout}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Delivered is what is known about the delivery of a message whose call failed.
type Delivered string

const (
	DeliveredNo      Delivered = "no"      // no byte left, or the peer's daemon says that no agent had it: safe to send anew
	DeliveredUnknown Delivered = "unknown" // repeat with the same id
)

// WithDelivered sets details.delivered and returns e.
func (e *Error) WithDelivered(d Delivered) *Error {
	e.Details = jsontext.Value(`{"delivered":"` + string(d) + `"}`)
	return e
}

// MarkNotDelivered returns the error with which a daemon refuses a peer's message before any agent has it: with
// delivered no, so that its sender knows that it can send the message anew. It returns any error that is not retryable,
// or has details, as it is.
func MarkNotDelivered(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || !e.Retryable || len(e.Details) > 0 {
		return err
	}
	marked := *e
	return marked.WithDelivered(DeliveredNo)
}

// NewDeclined returns the error with which an agent declines. Its details tell it from a policy's.
func NewDeclined(why string) *Error {
	e := Errorf(NotAuthorized, "%s", why)
	e.Details = jsontext.Value(`{"declined":true}`)
	return e
}

// IsDeclined reports whether an agent has declined with this error.
func (e *Error) IsDeclined() bool {
	var d struct {
		Declined bool `json:"declined"`
	}
	return e.Code == NotAuthorized && len(e.Details) > 0 && json.Unmarshal(e.Details, &d) == nil && d.Declined
}

// Delivered returns details.delivered, or "" if it is not set.
func (e *Error) Delivered() Delivered {
	var d struct {
		Delivered Delivered `json:"delivered"`
	}
	if len(e.Details) == 0 || json.Unmarshal(e.Details, &d) != nil {
		return ""
	}
	return d.Delivered
}

// Reason says why a daemon has refused a call of its own machine, where callers tell cases of one
// code apart.
type Reason string

const (
	ReasonParentUnknown Reason = "parent_unknown" // the parent that the call names is not known any more
	ReasonParentEnded   Reason = "parent_ended"   // nobody waits any more for what the call follows from
	ReasonNameTaken     Reason = "name_taken"     // another agent has the name, or it is kept for one
	ReasonShareUsed     Reason = "share_used"     // no more may be sent now in turns that the peer has woken
	ReasonBudgetUsed    Reason = "budget_used"    // the day's budget of headless runs does not hold another one
)

// WithReason sets details.reason and returns e.
func (e *Error) WithReason(r Reason) *Error {
	e.Details = jsontext.Value(`{"reason":"` + string(r) + `"}`)
	return e
}

// Reason returns details.reason, or "" if the own daemon has not set it. It ignores a reason that
// a peer has set.
func (e *Error) Reason() Reason {
	var d struct {
		Reason Reason `json:"reason"`
	}
	if e.From != "" || len(e.Details) == 0 || json.Unmarshal(e.Details, &d) != nil {
		return ""
	}
	return d.Reason
}
