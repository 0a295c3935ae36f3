package openintent

import (
	"errors"
	"fmt"

	"github.com/acpd/acpd/openintent/chain"
)

// Error is a refusal. Clients branch on its code; no message of a conflict contains the
// letters "lease", for the Python SDK would take it for a conflict about leases, and so none
// quotes its caller.
type Error struct {
	Code    string         // one word
	Message string         // the operation, the problem, the remedy
	More    map[string]any // what else there is to tell, by name
}

func (e *Error) Error() string { return e.Message }

// Codes that are used in several places.
const (
	codeClosed    = "channel_closed"
	codeNotFound  = "not_found"
	codeNotMember = "not_member"
)

// with adds something to tell.
func (e *Error) With(name string, value any) *Error {
	if e.More == nil {
		e.More = make(map[string]any)
	}
	e.More[name] = value
	return e
}

func Refuse(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// invalid refuses the member field of a body, or of a query, as FastAPI would.
func Invalid(field, format string, args ...any) *Error {
	e := Refuse("invalid", "%s: %s", field, fmt.Sprintf(format, args...))
	return e.With("errors", []any{map[string]any{"loc": []any{"body", field}, "msg": e.Message, "type": "value_error"}})
}

func notFound(what string) *Error {
	of := "its intent"
	if what == "intent" {
		of = "it"
	}
	return Refuse(codeNotFound, "there is no such %s, or you have no access to %s", what, of)
}

func tooMany(what string, max int, remedy string) *Error {
	return Refuse(codeTooMany, "there are %d %s already, the most that are kept: %s", max, what, remedy)
}

// badProof is the refusal of a message whose proof is wrong. Other errors stay as they are.
func badProof(err error) error {
	if p, ok := errors.AsType[chain.ProofError](err); ok {
		return Refuse("bad_proof", "metadata.proof: %s", p)
	}
	return err
}
