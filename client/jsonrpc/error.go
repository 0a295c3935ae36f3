package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// The codes of JSON-RPC 2.0, section 5.1, and the one of this API, under which
// data holds a [kinds.Error].
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeProtocol       = -32000
)

// Error is the error object of JSON-RPC 2.0: what is wrong with the call as such.
type Error struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (JSON-RPC %d)", e.Message, e.Code) }

// OwnWords leaves the message out, which the other end may have written.
func (e *Error) OwnWords() string {
	return fmt.Sprintf("JSON-RPC error %d%s", e.Code, map[int]string{
		CodeParse: ", parse error", CodeInvalidRequest: ", invalid request", CodeMethodNotFound: ", method not found", CodeInvalidParams: ", invalid params",
	}[e.Code])
}

// NewMethodNotFound returns the error for a method that the handler does not know.
func NewMethodNotFound(method string) *Error {
	return &Error{Code: CodeMethodNotFound, Message: fmt.Sprintf("method not found: %.64q", method)}
}

// ErrFull: the queue of lines is full and Options.PushBack is set. Nothing was
// sent.
var ErrFull = ownwords.New("the outgoing queue is full: try again later")

// ErrClosed: the connection has ended. The error of a call wraps a [kinds.Error]
// daemon_unavailable too, which says what is known of the delivery.
var ErrClosed = ownwords.New("the connection is closed")

func newClosedError(cause error, d kinds.Delivered) error {
	return ownwords.Errorf("%w: %w", ErrClosed, kinds.Errorf(kinds.DaemonUnavailable,
		"the connection on the socket ended: %v", cause).WithDelivered(d))
}

// toErrorObject returns the form in which err crosses the socket. It replaces invalid
// texts, because an error must not be lost to one of its own texts.
func toErrorObject(err error) *Error {
	if unread, ok := err.(unreadError); ok {
		err = unread.error
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{Code: e.Code, Message: replaceInvalidUTF8(e.Message), Data: dropInvalidJSON(e.Data)}
	}
	var e kinds.Error
	if known, ok := errors.AsType[*kinds.Error](err); ok {
		e = *known
	} else if errors.Is(err, context.DeadlineExceeded) {
		e = *kinds.Errorf(kinds.Timeout, "%v", err)
	} else if errors.Is(err, context.Canceled) {
		e = *kinds.Errorf(kinds.Cancelled, "%v", err)
	} else {
		e = *kinds.Errorf(kinds.Internal, "%v", err)
	}
	e.Code, e.Message, e.From = kinds.Code(replaceInvalidUTF8(string(e.Code))), replaceInvalidUTF8(e.Message), replaceInvalidUTF8(e.From)
	e.Details, e.Quoted = dropInvalidJSON(e.Details), replaceInvalidUTF8(e.Quoted)
	data, _ := json.Marshal(&e) // cannot fail: all of it is clean
	return &Error{Code: CodeProtocol, Message: e.Message, Data: data}
}

func replaceInvalidUTF8(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

func dropInvalidJSON(v jsontext.Value) jsontext.Value {
	if !v.IsValid() {
		return nil
	}
	return v
}

// readErrorObject reads the member error of a response.
func readErrorObject(text jsontext.Value) error {
	e := new(Error)
	if json.Unmarshal(text, e) != nil {
		return &Error{Code: CodeInvalidRequest, Message: "the answer's error is malformed"}
	}
	if len(e.Data) > 0 && e.Data.Kind() == '{' {
		data := new(kinds.Error)
		if json.Unmarshal(e.Data, data) == nil && data.Code != "" {
			if data.Message == "" {
				data.Message = e.Message
			}
			return data
		}
	}
	return e
}
