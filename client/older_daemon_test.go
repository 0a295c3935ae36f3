package client

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/kinds"
)

// What a daemon does not know, because it is older than this program, is told with what helps.
func TestOlderDaemon(t *testing.T) {
	s := newServer(t, func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) {
		switch r.Method {
		case MethodAgents, MethodSpeak:
			r.RespondError(jsonrpc.NewMethodNotFound(r.Method))
		case MethodWait:
			r.RespondError(&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "wait: params: after_questions: unknown object member name"})
		default:
			r.RespondError(kinds.Errorf(kinds.Invalid, "no"))
		}
	})
	c := &Client{Socket: s.path}
	t.Cleanup(func() { c.Close() })
	for method, want := range map[string]string{
		MethodAgents: "agents: unknown method: the daemon is older than this program: update acpd and start it again (JSON-RPC -32601)",
		MethodWait:   "wait: params: after_questions: unknown object member name: the daemon is older than this program: update acpd and start it again (JSON-RPC -32602)",
		MethodPeers:  "no",
	} {
		err := c.callMethod(t.Context(), method, nil, nil)
		_, isPlain := errors.AsType[*kinds.Error](err)
		if err == nil || err.Error() != want && !isPlain || IsOlderDaemon(err) == isPlain {
			t.Errorf("%s: %v; of an older daemon: %v", method, err, IsOlderDaemon(err))
		}
	}

	// So is what it does not know while a connection is made ready.
	speaking := &Client{Socket: s.path, SpeakAs: SpeakParams{Name: "reviewer", Key: "k"}}
	t.Cleanup(func() { speaking.Close() })
	if _, err := speaking.Whoami(t.Context()); !IsOlderDaemon(err) || !strings.Contains(err.Error(), "speak: unknown method: the daemon is older than this program") {
		t.Errorf("speaking: %v", err)
	}
}
