package object

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/acpd/acpd/openintent/chain"
)

// Error is a refusal. Clients branch on its code. No message of a conflict contains the
// letters "lease", which the Python SDK would take for a conflict about leases. Therefore no
// such message quotes its caller.
type Error struct {
	Code    string         // one word
	Message string         // the operation, the problem, the remedy
	More    map[string]any // further members of the answer, by name
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Codes that are used in several places.
const (
	CodeClosed     = "channel_closed"
	CodeDiskShare  = "disk_share"
	codeNotFound   = "not_found"
	CodeNotMember  = "not_member"
	CodeOverloaded = "overloaded"
	CodeTooMany    = "too_many"
)

// WithMember adds a member to what the refusal tells, and returns the refusal.
func (e *Error) WithMember(name string, value any) *Error {
	if e.More == nil {
		e.More = make(map[string]any)
	}
	e.More[name] = value
	return e
}

// NewError returns a refusal with a code and a formatted message.
func NewError(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// NewFieldError refuses the member field of a body or a query, in the form of FastAPI.
func NewFieldError(field, format string, args ...any) *Error {
	e := NewError("invalid", "%s: %s", field, fmt.Sprintf(format, args...))
	return e.WithMember("errors", []any{map[string]any{"loc": []any{"body", field}, "msg": e.Message, "type": "value_error"}})
}

// CheckOneOf refuses the member field of a body unless its value is in list.
func CheckOneOf(field, value string, list []string) error {
	if slices.Contains(list, value) {
		return nil
	}
	return NewFieldError(field, "one of %s", strings.Join(list, ", "))
}

// CheckAtMost refuses the member field of a body if it has more than most of the unit, which
// is " bytes" or "", for elements.
func CheckAtMost(field string, n, most int, unit string) error {
	if n <= most {
		return nil
	}
	return NewFieldError(field, "at most %d%s", most, unit)
}

// maxText bounds the bytes of a reason, and of texts in an agent's record.
const maxText = 4096

// checkText refuses the member field of a body if it has a text of more bytes.
func checkText(field string, text *string, most int) error {
	if text == nil {
		return nil
	}
	return CheckAtMost(field, len(*text), most, " bytes")
}

// NewNotFoundError refuses an id of a thing that is not there, or not for the caller.
func NewNotFoundError(what string) *Error {
	of := "its intent"
	if what == "intent" {
		of = "it"
	}
	return NewError(codeNotFound, "there is no such %s, or you have no access to %s", what, of)
}

// NewTooManyError refuses one more of a thing if there are already as many as are kept.
func NewTooManyError(what string, max int, remedy string) *Error {
	return NewError(CodeTooMany, "there are %d %s already, the most that are kept: %s", max, what, remedy)
}

// ConvertProofError makes a refusal of an error about a proof, and returns other errors as they are.
func ConvertProofError(err error) error {
	if p, ok := errors.AsType[chain.ProofError](err); ok {
		return NewError("bad_proof", "metadata.proof: %s", p)
	}
	return err
}

// ReplaceIntentNotFound makes the error about an intent that the caller cannot see one about a thing
// of the intent. It returns other errors as they are.
func ReplaceIntentNotFound(err error, what string) error {
	if IsNotFound(err) {
		return NewNotFoundError(what)
	}
	return err
}

// IsNotFound reports whether an error refuses an id of a thing that is not there.
func IsNotFound(err error) bool {
	r, ok := err.(*Error)
	return ok && r.Code == codeNotFound
}
