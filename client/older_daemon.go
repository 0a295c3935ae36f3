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

// explainOlderDaemon adds to the error of a daemon that is older than this program what helps. It
// returns any other error as it is.
func explainOlderDaemon(method string, err error) error {
	if !IsOlderDaemon(err) {
		return err
	}
	e, _ := errors.AsType[*jsonrpc.Error](err)
	told := *e
	if e.Code == jsonrpc.CodeMethodNotFound {
		told.Message = method + ": unknown method"
	}
	told.Message += ": the daemon is older than this program: update acpd and start it again"
	return &told
}
