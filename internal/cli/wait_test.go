package cli

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/cli/clitest"
)

// A daemon of 0.1.0 knows nothing of questions back, and wait waits all the same.
func TestWaitWithOlderDaemon(t *testing.T) {
	f := newDaemon(t)
	f.SetHandler(client.MethodWait, func(r *jsonrpc.Request) (any, error) {
		if strings.Contains(string(r.Params), "after_questions") {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "wait: params: after_questions: unknown object member name"}
		}
		return &client.Task{ID: clitest.SomeID, Peer: "desk", Direction: client.Taken, State: client.TaskCompleted, Outcome: "done"}, nil
	})
	f.WantResult(f.Run("wait", clitest.SomeID.String()), 0, "done\n", "")
}
