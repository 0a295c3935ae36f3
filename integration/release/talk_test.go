//go:build interop

package release

import (
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/scenario"
	"github.com/acpd/acpd/kinds"
)

// Messages of every kind pass from the laptop to the agents at the desk, and back.
func TestEveryKind(t *testing.T) {
	t.Parallel()
	forEachPairing(t, func(t *testing.T, desk, laptop *side) {
		scenario.StartDesk(t, desk.Machine)
		laptop.Serve("helper", "--prompt", "--", "sed", "s/^/You said: /")

		if pongs := laptop.MustOutput("ping", "desk", "-c", "2", "--json"); strings.Count(pongs, `"status":"idle"`) != 2 {
			t.Errorf("pings: %s", pongs)
		}
		if known := laptop.MustOutput("discover", "desk", "--json"); !strings.Contains(known, `"echo"`) || !strings.Contains(known, `"worker"`) {
			t.Errorf("discovered: %s", known)
		}
		if answer := laptop.MustOutput("query", "desk/echo", "Ready?"); answer != "You asked: Ready?\n" {
			t.Errorf("the answer is %q", answer)
		}
		if answer := laptop.MustOutput("query", "desk/echo", "ask helper"); answer != "You said: and you?\n" {
			t.Errorf("the answer with a question in the other direction is %q", answer)
		}
		refusal := parse[map[string]kinds.Error](t, laptop.RunAcpctl(kinds.Overloaded.Info().Exit, "query", "desk/echo", "busy", "--json").Stdout.String())["error"]
		if refusal.Code != kinds.Overloaded || !refusal.Retryable || refusal.RetryAfterMS != 1500 {
			t.Errorf("the error is %+v", refusal)
		}

		checkSteps(t, laptop)
		for task, code := range map[string]kinds.Code{"fail": kinds.UnknownDomain, "refuse me": kinds.NotAuthorized} {
			id := strings.TrimSpace(laptop.MustOutput("delegate", "desk/worker", task))
			ended := parse[client.Task](t, laptop.RunAcpctl(code.Info().Exit, "wait", id, "--json").Stdout.String())
			if e := parse[kinds.Error](t, string(ended.Result)); ended.State != client.TaskFailed || e.Code != code {
				t.Errorf("%s ended as %s: %+v", task, ended.State, e)
			}
		}
		id := strings.TrimSpace(laptop.MustOutput("delegate", "desk/worker", "for ever"))
		laptop.MustOutput("cancel", id)
		if state := findTask(t, laptop, id).State; state != client.TaskCancelled {
			t.Errorf("the cancelled task is %s", state)
		}
		laptop.RunAcpctl(kinds.NotAuthorized.Info().Exit, "cancel", id)

		if receipt := laptop.MustOutput("notify", "desk", "note.held", `{"n":1}`); !strings.Contains(receipt, "held") {
			t.Errorf("the receipt is %q", receipt)
		}
		if held := listInbox(t, desk); len(held) != 1 || !strings.Contains(string(held[0].Envelope.Payload), "note.held") {
			t.Errorf("the desk holds %+v", held)
		}
		laptop.MustOutput("query", "desk/echo", "write helper")
		id = strings.TrimSpace(laptop.MustOutput("delegate", "desk/worker", "fail"))
		for kind, belongs := range map[string]func(client.HeldMessage) bool{
			kinds.KindNotify: func(m client.HeldMessage) bool { return m.Agent == "helper" },
			kinds.KindError:  func(m client.HeldMessage) bool { return m.Envelope.Ref != nil && m.Envelope.Ref.String() == id },
		} {
			await.Until(t, "the laptop holds a message of kind "+kind, func() bool {
				return slices.ContainsFunc(listInbox(t, laptop), func(m client.HeldMessage) bool { return m.Envelope.Kind == kind && belongs(m) })
			})
		}
	})
}

// checkSteps delegates what has two partial results and a final one, and follows it. The worker goes
// on when it hears of each partial result, in a notice that it confirms.
func checkSteps(t *testing.T, laptop *side) {
	t.Helper()
	id := strings.TrimSpace(laptop.MustOutput("delegate", "desk/worker", "steps"))
	follow := laptop.StartAcpctl("wait", "--follow", "--json", id)
	for n := 1; n <= 2; n++ {
		await.Until(t, "a partial result", func() bool { return strings.Count(follow.Stdout.String(), "\n") >= n || !follow.IsRunning() })
		if receipt := laptop.MustOutput("notify", "desk/worker", "next", `"`+id+`"`); !strings.Contains(receipt, "handed") {
			t.Errorf("the receipt is %q", receipt)
		}
	}
	seen := parseLines[client.Task](t, follow.AwaitExit(0))
	if len(seen) != 3 {
		t.Fatalf("followed %d: %s", len(seen), follow.Stdout.String())
	}
	for n, want := range []string{"part 0", "part 1"} {
		if r := parse[kinds.Result](t, string(seen[n].Partial)); r.Outcome != want || *r.Progress != 0.25+float64(n)/2 {
			t.Errorf("partial result %d is %+v", n, r)
		}
	}
	if r := parse[kinds.Result](t, string(seen[2].Result)); seen[2].State != client.TaskCompleted || r.Outcome != "done" || string(r.Data) != `{"n":[1,2]}` {
		t.Errorf("the result is %+v", seen[2])
	}
}

// findTask returns what acpctl tasks says of a delegation.
func findTask(t *testing.T, s *side, id string) client.Task {
	t.Helper()
	for _, task := range parse[client.Tasks](t, s.MustOutput("tasks", "--json")).Tasks {
		if task.ID.String() == id {
			return task
		}
	}
	return client.Task{}
}

// listInbox returns what acpctl inbox lists.
func listInbox(t *testing.T, s *side) []client.HeldMessage {
	t.Helper()
	return parse[client.Inbox](t, s.MustOutput("inbox", "--json")).Messages
}
