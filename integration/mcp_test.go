package integration

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// session is an agent program that has acpctl mcp as a child, with the official client.
type session struct {
	*sdk.ClientSession
	t *testing.T
}

// startSession starts acpctl mcp on a machine.
func (m *machine) startSession(name string, args ...string) *session {
	m.T.Helper()
	return m.startSessionIn("/", name, args...)
}

// startSessionIn starts acpctl mcp in a folder.
func (m *machine) startSessionIn(folder, name string, args ...string) *session {
	m.T.Helper()
	cmd := exec.Command(live.ProgramPath(m.T, "acpctl"), append([]string{"mcp", "--home", m.Home}, args...)...)
	cmd.Env, cmd.Dir = live.NewEnviron(m.T, m.Home, m.Env...), folder
	var errs await.Output
	cmd.Stderr = &errs
	c := sdk.NewClient(&sdk.Implementation{Name: name, Version: "1.2.3"}, nil)
	s, err := c.Connect(context.Background(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		m.T.Fatalf("acpctl mcp: %v\n%s", err, errs.String())
	}
	m.T.Cleanup(func() {
		if err := s.Close(); err != nil {
			m.T.Errorf("acpctl mcp of %s: %v\n%s", name, err, errs.String())
		}
		if m.T.Failed() {
			m.T.Logf("acpctl mcp of %s: %s", name, errs.String())
		}
	})
	return &session{s, m.T}
}

// toolResult is the structured result of a tool.
type toolResult struct {
	Text, State, ID, From string
	Next, Unread          int
	Detail                map[string]any
	Error                 *struct{ Code, Message, Remedy string }
	said                  string // the text
}

// call calls a tool.
func (s *session) call(name string, arguments map[string]any) *toolResult {
	s.t.Helper()
	r, err := s.CallTool(await.NewContext(s.t), &sdk.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	text, err := json.Marshal(r.StructuredContent)
	out := new(toolResult)
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		s.t.Fatalf("%s: %v: %s", name, err, text)
	}
	if out.said = r.Content[0].(*sdk.TextContent).Text; r.IsError != (out.Error != nil) {
		s.t.Errorf("%s: isError is %t: %s", name, r.IsError, text)
	}
	return out
}

// arrived is the state of a message that a session acknowledged at once, or has in its inbox.
const arrived = "handed or held"

// must calls a tool, which must end in that state.
func (s *session) must(state, name string, arguments map[string]any) *toolResult {
	s.t.Helper()
	r := s.call(name, arguments)
	if r.State != state && (state != arrived || r.State != "handed" && r.State != "held") {
		s.t.Fatalf("%s: state %q, want %q: %s %v", name, r.State, state, r.said, r.Error)
	}
	return r
}

// openRequest waits until a query or delegation waits for the session, and returns its id.
func (s *session) openRequest(says string) (id string) {
	s.t.Helper()
	await.Until(s.t, "a request waits", func() bool {
		r := s.call("acp_inbox", nil)
		if r.Detail == nil {
			return false
		}
		rows, _ := r.Detail["messages"].([]any)
		for _, row := range rows {
			if row := row.(map[string]any); row["open"] == true && strings.Contains(r.Text, says) {
				id = row["id"].(string)
			}
		}
		return id != ""
	})
	return id
}

// A session asks one on another machine, which answers; work and notices go both ways; and each
// tool works again after either daemon was killed.
func TestSessionsAskEachOther(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	reviewer := desk.startSession("reviewer", "--attach")
	planner := laptop.startSession("planner", "--attach")
	desk.AwaitAgent("reviewer")
	laptop.AwaitAgent("planner")
	for round, restart := range []func(){func() {}, func() { restartKilled(desk, laptop) }, func() { restartKilled(laptop, desk) }} {
		restart()
		desk.AwaitAgent("reviewer")
		laptop.AwaitAgent("planner")

		if r := planner.must("listed", "acp_peers", nil); !strings.Contains(r.said, "desk") || !strings.Contains(r.said, "reviewer (when-active)") {
			t.Errorf("round %d: peers: %s", round, r.said)
		}

		answered := make(chan *toolResult, 1)
		go func() {
			answered <- planner.call("acp_query", map[string]any{"to": "desk/reviewer", "question": "Is the parser safe?"})
		}()
		id := reviewer.openRequest("Is the parser safe?")
		reviewer.must("answered", "acp_reply", map[string]any{"id": id, "text": "As safe as they come.", "data": map[string]any{"lines": 7}})
		if r := await.Receive(t, "the answer", answered); r.State != "answered" || r.From != "desk" || !strings.Contains(r.Text, "As safe as they come.") || !strings.Contains(r.Text, "no authority") {
			t.Errorf("round %d: %+v", round, r)
		}
		if r := reviewer.call("acp_reply", map[string]any{"id": id, "text": "Again."}); r.Error == nil || r.Error.Code != "not_found" || !strings.Contains(r.Error.Message, "it was answered") {
			t.Errorf("round %d: a second answer: %+v", round, r)
		}

		task := planner.must("accepted", "acp_delegate", map[string]any{"to": "desk/reviewer", "task": "Review the parser."}).ID
		if got := reviewer.openRequest("Review the parser."); got != task {
			t.Errorf("round %d: delegation %s waits, want %s", round, got, task)
		}
		asked := make(chan *toolResult, 1)
		go func() {
			asked <- reviewer.call("acp_query", map[string]any{"question": "Which branch?", "about": task})
		}()
		question := planner.openRequest("Which branch?")
		planner.must("answered", "acp_reply", map[string]any{"id": question, "text": "The one called main."})
		if r := await.Receive(t, "the answer to the question", asked); r.State != "answered" || !strings.Contains(r.Text, "The one called main.") {
			t.Errorf("round %d: %+v", round, r)
		}
		reviewer.must(arrived, "acp_reply", map[string]any{"id": task, "text": "Half of it.", "status": "partial"})
		if r := planner.must("accepted", "acp_task", map[string]any{"id": task}); !strings.Contains(r.Text, "Half of it.") {
			t.Errorf("round %d: %s", round, r.Text)
		}
		reviewer.must(arrived, "acp_reply", map[string]any{"id": task, "text": "Two findings."})
		if r := planner.must("completed", "acp_task", map[string]any{"id": task, "do": "wait"}); !strings.Contains(r.Text, "Two findings.") {
			t.Errorf("round %d: %s", round, r.Text)
		}

		notice := planner.must(arrived, "acp_notify", map[string]any{"to": []string{"desk/reviewer"}, "topic": "build.done", "data": "all green"}).ID
		if r := reviewer.must("shown", "acp_inbox", nil); !strings.Contains(r.Text, "all green") {
			t.Errorf("round %d: inbox: %s", round, r.Text)
		}
		reviewer.must(arrived, "acp_reply", map[string]any{"id": notice, "text": "Seen."})
		if r := reviewer.must("shown", "acp_inbox", nil); r.said != "Nothing waits." {
			t.Errorf("round %d: what was replied to stays: %s", round, r.said)
		}
		r := planner.must("shown", "acp_inbox", nil)
		if !strings.Contains(r.Text, "Two findings.") || !strings.Contains(r.Text, "Seen.") {
			t.Errorf("round %d: inbox: %s", round, r.Text)
		}
		var ids []string
		for _, row := range r.Detail["messages"].([]any) {
			ids = append(ids, row.(map[string]any)["id"].(string))
		}
		if r := planner.must("shown", "acp_inbox", map[string]any{"ack": ids}); !strings.Contains(r.said, "Nothing waits.") {
			t.Errorf("round %d: acknowledged and still there: %s", round, r.said)
		}
	}
}

// restartKilled kills a daemon and starts it again.
func restartKilled(m, other *machine) {
	m.KillDaemon()
	m.StartDaemon()
	live.AwaitConnection(m.Machine, other.Machine)
}
