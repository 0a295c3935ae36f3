package channels

import (
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/kinds"
)

// Refusal is the answer of a daemon that refuses a request. It wraps the *kinds.Error that
// [Refusal.ProtocolError] returns.
type Refusal struct {
	Host      string // the machine that refuses; "": the caller's own daemon
	Method    string
	Status    int             // of HTTP
	Code      string          // of the API, "" if the answer was not readable
	Message   string          // for people, "" if the answer was not readable
	Delivered kinds.Delivered // what is known of a message; "": nothing was said
}

// parseRefusal reads the body of an answer that refuses a request. A host that says that
// nothing was delivered is not believed.
func parseRefusal(host, method string, status int, body []byte) *Refusal {
	var said struct {
		Code      string         `json:"error"`
		Message   string         `json:"message"`
		Delivered jsontext.Value `json:"delivered"` // a host may say anything
	}
	r := &Refusal{Host: host, Method: method, Status: status}
	if json.Unmarshal(body, &said) != nil || said.Message == "" {
		return r
	}
	r.Code, r.Message = said.Code, said.Message
	switch d := string(said.Delivered); {
	case method == http.MethodGet:
	case d == `"unknown"`:
		r.Delivered = kinds.DeliveredUnknown
	case d == `"no"` && host == "":
		r.Delivered = kinds.DeliveredNo
	}
	return r
}

func (r *Refusal) Error() string { return r.ProtocolError().Error() }

// Unwrap returns [Refusal.ProtocolError].
func (r *Refusal) Unwrap() error { return r.ProtocolError() }

// ProtocolError returns the protocol's error for the refusal. Its details
// hold the API's own code. A refusal of a host never gets a code that only the caller's
// daemon can know of.
func (r *Refusal) ProtocolError() *kinds.Error {
	if r.Message == "" {
		e := kinds.Errorf(kinds.Internal, "answers %d %s: try again later", r.Status, http.StatusText(r.Status))
		if e.From = r.Host; r.Host == "" {
			e.Message = "the daemon " + e.Message
		}
		return e
	}
	code, ok := codes[r.Status]
	if !ok {
		code = kinds.Invalid
	}
	message, from, quoted, said := r.Message, r.Host, "", r.Code
	switch {
	case r.Status == http.StatusServiceUnavailable && r.Code == string(kinds.Overloaded):
		code = kinds.Overloaded
	case r.Host != "" && r.Status == http.StatusServiceUnavailable:
		code, from = kinds.Unreachable, ""
		message, quoted, said = "the intent's machine takes nothing now: try again later", r.Message, ""
	case r.Host != "" && code == kinds.Unreachable:
		code = kinds.Internal
	case r.Host != "":
	case r.Code == "unknown_host":
		code = kinds.UnknownPeer
	case r.Code == "not_trusted":
		code = kinds.NotTrusted
	}
	e := kinds.Errorf(code, "%s", message).WithQuoted(quoted)
	e.From = from
	e.Details = jsontext.Value(kinds.EncodePayload(struct {
		Error     string          `json:"error,omitzero"`
		Status    int             `json:"status"`
		Delivered kinds.Delivered `json:"delivered,omitzero"`
	}{said, r.Status, r.Delivered}))
	return e
}

// codes are the codes for statuses of HTTP; any other is invalid.
var codes = map[int]kinds.Code{
	http.StatusUnauthorized:          kinds.NotAuthorized,
	http.StatusForbidden:             kinds.NotAuthorized,
	http.StatusNotFound:              kinds.NotFound,
	http.StatusRequestEntityTooLarge: kinds.TooLarge,
	http.StatusTooManyRequests:       kinds.Overloaded,
	http.StatusInternalServerError:   kinds.Internal,
	http.StatusBadGateway:            kinds.Unreachable,
	http.StatusInsufficientStorage:   kinds.Overloaded,
	http.StatusServiceUnavailable:    kinds.DaemonUnavailable,
	http.StatusGatewayTimeout:        kinds.Timeout,
}
