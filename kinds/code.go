package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/wire"
)

// Code names what went wrong. The same word stands in envelopes, receipts, the
// local API and the commands' output.
type Code string

// The codes (protocol, section 5).
const (
	NotAuthorized       Code = "not_authorized"
	UnknownDomain       Code = "unknown_domain"
	UnknownKind         Code = "unknown_kind"
	Invalid             Code = "invalid"
	TooLarge            Code = "too_large"
	NoAgent             Code = "no_agent"
	Overloaded          Code = "overloaded"
	Timeout             Code = "timeout"
	Cancelled           Code = "cancelled"
	NotFound            Code = "not_found"
	LoopDetected        Code = "loop_detected"
	IncompatibleVersion Code = "incompatible_version"
	Internal            Code = "internal"

	Unreachable       Code = "unreachable"
	DaemonUnavailable Code = "daemon_unavailable"
	UnknownPeer       Code = "unknown_peer"
	NotTrusted        Code = "not_trusted"
	IdentityConflict  Code = "identity_conflict"
)

// CodeInfo is a row of the code table.
type CodeInfo struct {
	Code      Code
	Retryable bool   // the same call may succeed later
	Local     bool   // raised by the own daemon or client alone, never sent to a peer
	Exit      int    // exit code of a command that ends with it
	Raised    string // when
}

var codeTable = [...]CodeInfo{
	{NotAuthorized, false, false, 4, "policy forbids it, or from or to is not the connection's"},
	{UnknownDomain, false, false, 7, "every attached agent declared domains and none matches; details.domains lists them"},
	{UnknownKind, false, false, 7, "the receiver does not know the kind"},
	{Invalid, false, false, 7, "malformed envelope or payload; the message names the field"},
	{TooLarge, false, false, 7, "the encoded envelope is over max_message; no daemon cuts a message. An agent may cut what it answers, as `acpctl serve` does with what its command prints, and then says so: `truncated: true`"},
	{NoAgent, true, false, 7, "no agent is attached that could answer"},
	{Overloaded, true, false, 7, "a task or rate limit is reached, or a table is full; see retry_after_ms"},
	{Timeout, true, false, 3, "the deadline passed"},
	{Cancelled, false, false, 7, "the caller gave up, or the task was cancelled"},
	{NotFound, false, false, 7, "ref names nothing that this peer may refer to"},
	{LoopDetected, false, false, 7, "the chain of messages is longer than 16"},
	{IncompatibleVersion, false, false, 7, "no common version of the protocol"},
	{Internal, false, false, 7, "the receiver failed"},
	{Unreachable, true, true, 5, "no answer from the peer; details.delivered is no or unknown"},
	{DaemonUnavailable, true, true, 6, "no daemon answers on the socket"},
	{UnknownPeer, false, true, 5, "no trusted peer has that name or id"},
	{NotTrusted, false, true, 4, "the peer does not trust this daemon"},
	{IdentityConflict, false, true, 5, "another process shows the same identity, or a peer another key"},
}

// ListCodes returns the code table.
func ListCodes() []CodeInfo { return append([]CodeInfo(nil), codeTable[:]...) }

// Info returns the code's row. An unknown code reads as neither retryable nor
// local, with exit code 7.
func (c Code) Info() CodeInfo {
	for i := range codeTable {
		if codeTable[i].Code == c {
			return codeTable[i]
		}
	}
	return CodeInfo{Code: c, Exit: 7}
}

// IsKnown reports whether the code is of the table.
func (c Code) IsKnown() bool { return c.Info().Raised != "" }

// isWord reports whether the code has the form that a peer's may have: up to 64 small letters,
// digits and underlines. Codes stand beside other text, in lines that people and models read.
func (c Code) isWord() bool {
	for i := range len(c) {
		if b := c[i]; b != '_' && (b < 'a' || b > 'z') && (b < '0' || b > '9') {
			return false
		}
	}
	return c != "" && len(c) <= 64
}

// Error says what went wrong, in a form that crosses every boundary: it is the payload of
// an error envelope, a refused receipt, the data of a JSON-RPC error and the object that
// acpctl prints.
type Error struct {
	Code         Code           `json:"code"`
	Message      string         `json:"message"`
	Retryable    bool           `json:"retryable"`
	RetryAfterMS uint64         `json:"retry_after_ms,omitzero"`
	Details      jsontext.Value `json:"details,omitzero"`
	From         string         `json:"from,omitzero"` // the peer that raised it; set by the own daemon
}

// NewErrorFromWire returns the error that a receipt, an ack or an error payload of a peer says.
// The code table decides whether it is retryable: unknown codes are kept and are not. A
// code that only the own daemon may raise, or that has not the form of one, becomes internal.
func NewErrorFromWire(code, message string, retryAfterMS uint64) *Error {
	e := &Error{Code: Code(code), Message: message}
	info := e.Code.Info()
	if info.Local || !e.Code.isWord() {
		info = Internal.Info()
	}
	e.Code, e.Retryable = info.Code, info.Retryable
	if e.Retryable {
		e.RetryAfterMS = retryAfterMS
	}
	return e
}

// SanitizeForPeer returns e as it may cross to or from a peer: with a code as [NewErrorFromWire]
// reads it, internal if it has none, and without From and details.delivered. Only the
// own daemon sets those two: an agent may answer with the error of another call, and
// that says nothing of this message. But no_agent with delivered unknown stays: it says that
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

// AsError returns the *Error in the chain of err. If there is none, it returns a new one:
// invalid for a [wire.FormatError], timeout or cancelled for an ended context, else
// internal.
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

// Errorf returns an error with a code, which is retryable if the code is.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Retryable: code.Info().Retryable}
}

func (e *Error) Error() string { return e.Message + " (" + string(e.Code) + ")" }

// Is reports whether target is an *Error of the same code, so that
// errors.Is(err, &kinds.Error{Code: kinds.Timeout}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Delivered says what is known of a message whose call failed.
type Delivered string

const (
	DeliveredNo      Delivered = "no"      // no byte left, or the peer said so: safe to send anew
	DeliveredUnknown Delivered = "unknown" // repeat with the same id
)

// WithDelivered sets details.delivered and returns e.
func (e *Error) WithDelivered(d Delivered) *Error {
	e.Details = jsontext.Value(`{"delivered":"` + string(d) + `"}`)
	return e
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
	ReasonNameTaken     Reason = "name_taken"     // another agent has the name, or it is kept for one
	ReasonShareUsed     Reason = "share_used"     // the peer that woke the session may cause no more turns now
)

// WithReason sets details.reason and returns e.
func (e *Error) WithReason(r Reason) *Error {
	e.Details = jsontext.Value(`{"reason":"` + string(r) + `"}`)
	return e
}

// Reason returns details.reason, or "" if the own daemon has set none: what a peer says there
// counts for nothing.
func (e *Error) Reason() Reason {
	var d struct {
		Reason Reason `json:"reason"`
	}
	if e.From != "" || len(e.Details) == 0 || json.Unmarshal(e.Details, &d) != nil {
		return ""
	}
	return d.Reason
}
