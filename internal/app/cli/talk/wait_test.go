package talk

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
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

// A wait with a limit ends after it, whatever it tells meanwhile, and the delegation goes on.
func TestWaitWithTimeout(t *testing.T) {
	f := newDaemon(t)
	id := clitest.SomeID.String()
	var limits []uint64
	f.SetHandler(client.MethodWait, func(r *jsonrpc.Request) (any, error) {
		var p client.WaitParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		limits = append(limits, p.TimeoutMS)
		if p.AfterPartials != nil && *p.AfterPartials == 0 {
			return &client.Task{ID: clitest.SomeID, Peer: "desk", State: client.TaskAccepted, Partials: 1, Partial: kinds.EncodePayload(&kinds.Result{Status: "partial", Outcome: "half"})}, nil
		}
		return nil, kinds.Errorf(kinds.Timeout, "the deadline passed")
	})
	got := f.Run("wait", "--follow", id, "--timeout", "1h")
	if got.Code != frame.ExitTimeout || got.Out != "" || !strings.Contains(got.Err, id+" has not ended within 1h, and continues: acpctl wait "+id) {
		t.Errorf("%+v", got)
	}
	if len(limits) != 2 || limits[0] == 0 || limits[0] > 3_600_000 || limits[1] == 0 || limits[1] > limits[0] {
		t.Errorf("the daemon was given %d ms", limits)
	}
	limits = nil
	f.Run("wait", id, "--timeout", "1ns")
	f.Run("wait", id)
	if len(limits) != 2 || limits[0] != 1 || limits[1] != 0 {
		t.Errorf("the daemon was given %d ms", limits)
	}
	for _, wrong := range []string{"0s", "-1s", "soon"} {
		if got := f.Run("wait", id, "--timeout", wrong); got.Code != frame.ExitUsage {
			t.Errorf("%s: %+v", wrong, got)
		}
	}
}
