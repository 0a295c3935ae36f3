package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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

// RPCError is the error object of JSON-RPC 2.0: what is wrong with the call as
// such.
type RPCError struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data,omitempty"`
}

func (e *RPCError) Error() string { return fmt.Sprintf("%s (JSON-RPC %d)", e.Message, e.Code) }

// MethodNotFound is the error for a method that the handler does not know.
func MethodNotFound(method string) *RPCError {
	return &RPCError{Code: CodeMethodNotFound, Message: fmt.Sprintf("method not found: %.64q", method)}
}

// ErrFull says that a connection's outgoing queue is full, with Options.PushBack:
// nothing was sent.
var ErrFull = errors.New("the outgoing queue is full: try again later")

// ErrClosed says that the connection has ended. A call's error has with it a
// [kinds.Error] daemon_unavailable that says what is known of the message.
var ErrClosed = errors.New("the connection is closed")

func closed(cause error, d kinds.Delivered) error {
	return fmt.Errorf("%w: %w", ErrClosed, kinds.Errorf(kinds.DaemonUnavailable,
		"the connection on the socket ended: %v", cause).WithDelivered(d))
}

// toRPC gives err the form in which it crosses the socket, whatever its texts
// hold: an error must not be lost to one of its own.
func toRPC(err error) *RPCError {
	if e, ok := errors.AsType[*RPCError](err); ok {
		return &RPCError{Code: e.Code, Message: clean(e.Message), Data: validOrNone(e.Data)}
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
	e.Code, e.Message, e.From = kinds.Code(clean(string(e.Code))), clean(e.Message), clean(e.From)
	e.Details = validOrNone(e.Details)
	data, _ := json.Marshal(&e) // cannot fail: all of it is clean
	return &RPCError{Code: CodeProtocol, Message: e.Message, Data: data}
}

func clean(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

func validOrNone(v jsontext.Value) jsontext.Value {
	if !v.IsValid() {
		return nil
	}
	return v
}

// fromRPC reads the member error of a response.
func fromRPC(text jsontext.Value) error {
	e := new(RPCError)
	if err := json.Unmarshal(text, e); err != nil {
		return &RPCError{Code: CodeInvalidRequest, Message: "the answer's error is malformed: " + problem(err)}
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
