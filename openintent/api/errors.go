package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/acpd/acpd/openintent/object"
)

// Error is a refusal as it is answered. Those of the engine get their status from their code.
type Error struct {
	Status  int
	Code    string         // the answer's "error"
	Message string         // the operation, the problem, the remedy
	More    map[string]any // further members of the answer
}

func (e *Error) Error() string { return e.Message }

// newStatusError returns a refusal whose status does not follow from its code.
func newStatusError(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// statuses are the HTTP statuses of the codes of [object.Error].
var statuses = map[string]int{
	"bad_agent_id": 400, "bad_body": 400, "bad_cursor": 400, "bad_id": 400, "bad_json": 400, "bad_key": 400, "bad_operator": 400, "bad_version": 400,
	"no_body": 400, "no_caller": 400, "two_callers": 400,
	"no_key":         401,
	"agent_mismatch": 403, "bad_proof": 403, "no_agent": 403, "no_operator": 403, "no_permission": 403, "not_an_agent": 403, "not_here": 403, "not_manager": 403,
	"not_member": 403, "not_recipient": 403, "not_yours": 403, "recipient_not_member": 403, "reserved_event": 403, "sender_mismatch": 403,
	"not_found":          404,
	"bad_method":         405,
	"agent_deregistered": 409, "agent_homed_elsewhere": 409, "agent_taken": 409, "ambiguous": 409, "channel_closed": 409, "channel_name_conflict": 409, "id_taken": 409,
	"intent_terminal": 409, "message_expired": 409, "request_expired": 409, "task_over": 409, "version_conflict": 409,
	"agent_gone": 410, "coordinator_gone": 410,
	"too_large":    413,
	"home_by_name": 422, "invalid": 422,
	"disk_share": 429, "overloaded": 429, "too_many": 429,
	"internal":  500,
	"cancelled": 503, "stopping": 503,
	"ask_timeout": 504,
	"disk_full":   507, "disk_low": 507,
}

// toAPIError returns err as an [*Error]; nil if it is no refusal.
func toAPIError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*object.Error](err); ok {
		return &Error{statuses[e.Code], e.Code, e.Message, e.More}
	}
	return nil
}

// WriteIfRefusal answers a request with the refusal that err is: an [*Error] or an
// [*object.Error]. It reports false, and answers nothing, if err is neither.
func WriteIfRefusal(w http.ResponseWriter, err error) bool {
	e := toAPIError(err)
	if e != nil {
		e.WriteAnswer(w)
	}
	return e != nil
}

// WriteAnswer answers a request with the error. The answer has the text twice: FastAPI's clients read
// detail, the SDK reads message.
func (r *Error) WriteAnswer(w http.ResponseWriter) {
	pairs := []any{"detail", r.Message, "message", r.Message, "error", r.Code}
	for name, v := range r.More {
		if name == "errors" && r.Status == http.StatusUnprocessableEntity {
			pairs[1] = v
		}
		pairs = append(pairs, name, v)
	}
	if r.Status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", r.More["allow"].(string))
	}
	if r.Code == "overloaded" {
		w.Header().Set("Retry-After", "1")
	}
	writeAnswer(w, r.Status, object.JSON{object.EncodeJSONObject(pairs...)})
}
