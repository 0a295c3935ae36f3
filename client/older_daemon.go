package client

import (
	"errors"
	"strings"

	"github.com/acpd/acpd/client/jsonrpc"
)

// unknownParam ends the message of a daemon that refuses a param whose name it does not know.
const unknownParam = "unknown object member name"

// IsOlderDaemon reports whether err says that the daemon does not know the method that was called,
// or one of its params: it is older than this program.
func IsOlderDaemon(err error) bool {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && (e.Code == jsonrpc.CodeMethodNotFound || e.Code == jsonrpc.CodeInvalidParams && strings.Contains(e.Message, unknownParam))
}

// explainOlderDaemon adds to the error of a daemon that is older than this program what helps. Of
// another [jsonrpc.Error] it makes one that may be shown, and returns any other error as it is.
func explainOlderDaemon(method string, err error) error {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return err
	}
	told := *e
	if !IsOlderDaemon(err) {
		return &refusal{&told}
	}
	if e.Code == jsonrpc.CodeMethodNotFound {
		told.Message = method + ": unknown method"
	}
	told.Message += ": the daemon is older than this program: update acpd and start it again"
	return &refusal{&told}
}

// refusal is a call that the daemon finds wrong as such. It is about what the caller has passed, in the
// daemon's words, which may be shown.
type refusal struct{ said *jsonrpc.Error }

func (r *refusal) Error() string    { return r.said.Error() }
func (r *refusal) OwnWords() string { return r.said.Message }
func (r *refusal) Unwrap() error    { return r.said }
