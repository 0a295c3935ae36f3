package daemon

import (
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/wire"
)

// Whoever asks is told which agent has answered, unless policy keeps from it which agents there are. The
// daemon's own answers name none, nor does the answer to a question back, which the owner may give.
func TestAnswersNameTheirAgent(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	writeConfig(t, dir, "policy:\n  planner: {kinds: [query, delegate]}\n")
	desk, planner, laptop := start(t, stateDir(t), "desk"), start(t, stateDir(t), "planner"), start(t, dir, "laptop")
	befriend(t, desk, laptop)
	befriend(t, planner, laptop)
	laptop.agent(client.AttachParams{Name: "reviewer", Kinds: []string{"query"}}, say(mainBranch))
	worker, _ := laptop.guestAgent(client.AttachParams{Name: "builder", Kinds: []string{"delegate"}}, say(accepted))
	ask := func(of *running, method, to string) string {
		t.Helper()
		params := any(client.QueryParams{To: to, Payload: query("?")})
		if method == "discover" {
			params = client.DiscoverParams{To: to}
		}
		var got client.Answer
		of.dial().must(method, params, &got)
		return got.FromAgent
	}
	for _, c := range []struct {
		of               *running
		method, to, want string
	}{
		{desk, "query", "laptop", "reviewer"},
		{desk, "discover", "laptop", ""},
		{desk, "discover", "laptop/reviewer", ""},
		{planner, "query", "laptop", ""},
		{planner, "query", "laptop/reviewer", "reviewer"},
	} {
		if got := ask(c.of, c.method, c.to); got != c.want {
			t.Errorf("%s asks %s for a %s, and %q has answered: want %q", c.of.name, c.to, c.method, got, c.want)
		}
	}
	var given client.DelegateAnswer
	l := desk.dial()
	l.must("delegate", client.DelegateParams{To: "laptop", Payload: task1("")}, &given)
	if given.FromAgent != "builder" {
		t.Errorf("%q took the delegation", given.FromAgent)
	}
	var other client.DelegateAnswer
	planner.dial().must("delegate", client.DelegateParams{To: "laptop", Payload: task1("")}, &other)
	if other.FromAgent != "" {
		t.Errorf("planner may not discover, and is told that %q took the delegation", other.FromAgent)
	}
	ends := asks(worker, given.ID, wire.NewMessageID(), which)
	q := l.question(given.ID, 0)
	l.must("answer", client.AnswerParams{Ref: q.ID, Payload: wire.Payload(mainBranch)}, nil)
	if end := await.Receive(t, "the answer", ends); end.err != nil || end.answer.FromAgent != "" {
		t.Errorf("the owner's answer is of %q: %v", end.answer.FromAgent, end.err)
	}
}
