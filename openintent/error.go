package openintent

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/acpd/acpd/openintent/chain"
)

// Error is a refusal as an answer tells it. Clients branch on Status and Code;
// no message of status 409 contains the letters "lease", for the Python SDK
// would take it for a conflict about leases, and so none quotes its caller.
type Error struct {
	Status  int
	Code    string         // one word, the answer's "error"
	Message string         // the operation, the problem, the remedy
	More    map[string]any // further members of the answer
}

func (e *Error) Error() string { return e.Message }

// Codes that are used in several places.
const (
	codeClosed    = "channel_closed"
	codeNotFound  = "not_found"
	codeNotMember = "not_member"
)

// with adds a member to the answer.
func (e *Error) with(name string, value any) *Error {
	if e.More == nil {
		e.More = make(map[string]any)
	}
	e.More[name] = value
	return e
}

func refuse(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// invalid refuses the member field of a body, or of a query, as FastAPI would.
func invalid(field, format string, args ...any) *Error {
	e := refuse(http.StatusUnprocessableEntity, "invalid", "%s: %s", field, fmt.Sprintf(format, args...))
	return e.with("errors", []any{map[string]any{"loc": []any{"body", field}, "msg": e.Message, "type": "value_error"}})
}

func notFound(what string) *Error {
	of := "its intent"
	if what == "intent" {
		of = "it"
	}
	return refuse(http.StatusNotFound, codeNotFound, "there is no such %s, or you have no access to %s", what, of)
}

func forbidden(code, format string, args ...any) *Error {
	return refuse(http.StatusForbidden, code, format, args...)
}

func conflict(code, format string, args ...any) *Error {
	return refuse(http.StatusConflict, code, format, args...)
}

func tooMany(what string, max int, remedy string) *Error {
	return refuse(http.StatusTooManyRequests, codeTooMany, "there are %d %s already, the most that are kept: %s", max, what, remedy)
}

// badProof is the refusal of a message whose proof is wrong. Other errors stay as they are.
func badProof(err error) error {
	if p, ok := errors.AsType[chain.ProofError](err); ok {
		return forbidden("bad_proof", "metadata.proof: %s", p)
	}
	return err
}
