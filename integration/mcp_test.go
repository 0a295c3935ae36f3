package integration

import (
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// session is an agent program that has acpctl mcp as a child, with the official client.
type session struct {
	*sdk.ClientSession
	t *testing.T
}

// startSession starts acpctl mcp on a machine.
func (m *machine) startSession(name string, args ...string) *session {
	m.T.Helper()
	cmd := exec.Command(live.ProgramPath(m.T, "acpctl"), append([]string{"mcp", "--home", m.Home}, args...)...)
	cmd.Env, cmd.Dir = live.NewEnviron(m.T, m.Home, m.Env...), "/"
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
	desk.attached("reviewer")
	laptop.attached("planner")
	for round, restart := range []func(){func() {}, func() { restartKilled(desk, laptop) }, func() { restartKilled(laptop, desk) }} {
		restart()
		desk.attached("reviewer")
		laptop.attached("planner")

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
	m.connected(other)
	other.connected(m)
}

// Without a daemon the tools say what to do, and work when it is there. A session that is not
// attached has no inbox and says so.
func TestToolsWithoutADaemon(t *testing.T) {
	t.Parallel()
	desk := newMachine(t, "desk")
	s := desk.startSession("planner")
	attached := desk.startSession("reviewer", "--attach")
	for _, s := range []*session{s, attached} {
		if r := s.call("acp_peers", nil); r.Error == nil || r.Error.Code != "daemon_unavailable" || !strings.Contains(r.Error.Remedy, "acpctl up") {
			t.Errorf("without a daemon: %+v", r)
		}
	}
	desk.StartDaemon()
	s.must("listed", "acp_peers", nil)
	if r := s.call("acp_inbox", nil); r.Error == nil || r.Error.Code != "not_authorized" || !strings.Contains(r.Error.Message, "--attach") {
		t.Errorf("inbox of a session that is not attached: %+v", r)
	}
	if r := attached.must("shown", "acp_inbox", nil); r.said != "Nothing waits." {
		t.Errorf("inbox: %s", r.said)
	}
	second := desk.startSession("reviewer", "--attach")
	desk.attached("reviewer-2")
	second.must("shown", "acp_inbox", nil)
}

// Two sessions that ask each other for ever, each after it has answered and without saying what
// it follows from, end at the bound of hops. So do notices that are acknowledged first, also
// if the daemon was killed since they came.
// holds: security.md#agents-on-this-machine
func TestSessionsThatNeverStop(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	sessions := [2]*session{desk.startSession("reviewer", "--attach"), laptop.startSession("planner", "--attach")}
	to := [2]string{"laptop/planner", "desk/reviewer"}
	desk.attached("reviewer")
	laptop.attached("planner")
	const bound = wire.MaxHops + 1
	ended := false
	for n := 0; n <= bound && !ended; n++ {
		from, other := sessions[n%2], sessions[(n+1)%2]
		answered := make(chan *toolResult, 1)
		go func() { answered <- from.call("acp_query", map[string]any{"to": to[n%2], "question": "And now?"}) }()
		await.Until(t, "it is asked, or refused", func() bool {
			if len(answered) > 0 {
				return true
			}
			r := other.call("acp_inbox", nil)
			rows, _ := r.Detail["messages"].([]any)
			for _, row := range rows {
				other.must("answered", "acp_reply", map[string]any{"id": row.(map[string]any)["id"], "text": "Ask me again."})
				return true
			}
			return false
		})
		r := await.Receive(t, "the answer", answered)
		if ended = r.Error != nil && r.Error.Code == "loop_detected"; !ended && r.State != "answered" {
			t.Fatalf("question %d: %s %+v", n, r.said, r.Error)
		}
	}
	if !ended {
		t.Errorf("after %d questions they still go on", bound)
	}

	sessions = [2]*session{desk.startSession("tester", "--attach"), laptop.startSession("tester", "--attach")}
	to = [2]string{"laptop/tester", "desk/tester"}
	desk.attached("tester")
	laptop.attached("tester")
	ended = false
	for n := 0; n <= bound && !ended; n++ {
		from, other := sessions[n%2], sessions[(n+1)%2]
		r := from.call("acp_notify", map[string]any{"to": to[n%2], "topic": "ping"})
		if ended = r.Error != nil && r.Error.Code == "loop_detected"; ended {
			break
		}
		if r.State != "held" && r.State != "handed" {
			t.Fatalf("notice %d: %s", n, r.said)
		}
		switch n {
		case 5:
			restartKilled(laptop, desk)
			laptop.attached("tester")
		case 6:
			restartKilled(desk, laptop)
			desk.attached("tester")
		}
		if shown := other.must("shown", "acp_inbox", nil); !strings.Contains(shown.Text, r.ID) {
			t.Fatalf("notice %d is not in the inbox: %s", n, shown.said)
		}
		if n > 6 { // what a daemon knew of acknowledged messages goes with it
			other.must("shown", "acp_inbox", map[string]any{"ack": []string{r.ID}})
		}
	}
	if !ended {
		t.Errorf("after %d notices they still go on", bound)
	}
}

// Three sessions on three machines that tell each other something in a ring end too, and none of
// them is asked by the one that it tells. A session whose user asks for a call may go on.
// holds: security.md#agents-on-this-machine
func TestARingOverThreeMachinesEnds(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	shelf := running(t, "shelf")
	befriend(t, desk, shelf)
	befriend(t, laptop, shelf)
	names := []string{"desk", "laptop", "shelf"}
	var sessions []*session
	for _, m := range []*machine{desk, laptop, shelf} {
		sessions = append(sessions, m.startSession("tester", "--attach"))
		m.attached("tester")
	}
	for n := 0; ; n++ {
		from, to := sessions[n%3], (n+1)%3
		notice := map[string]any{"to": names[to] + "/tester", "topic": "ping"}
		r := from.call("acp_notify", notice)
		if r.Error == nil && n <= wire.MaxHops {
			if shown := sessions[to].must("shown", "acp_inbox", nil); !strings.Contains(shown.Text, r.ID) {
				t.Fatalf("notice %d is not in the inbox: %s", n, shown.said)
			}
			sessions[to].must("shown", "acp_inbox", map[string]any{"ack": []string{r.ID}})
			continue
		}
		if n != wire.MaxHops+1 || r.Error == nil || r.Error.Code != "loop_detected" || !strings.Contains(r.Error.Message, " of "+names[(n+2)%3]+": ") {
			t.Fatalf("notice %d: %s", n, r.said)
		}
		notice["about"] = "user"
		from.must(arrived, "acp_notify", notice)
		return
	}
}

// A session answers now whoever may wake it, and others when it has a turn.
func TestPeersHearWhoAnswersNow(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	desk.serve("builder", "--", "true")
	desk.startSession("reviewer", "--attach")
	desk.attached("reviewer")
	discover := func() *kinds.Capabilities {
		t.Helper()
		a, err := laptop.Client.Discover(await.NewContext(t), client.DiscoverParams{To: "desk", Fresh: true})
		if err != nil {
			t.Fatal(err)
		}
		c, err := kinds.ParsePayload[kinds.Capabilities](a.Payload)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := discover(); !slices.Equal(c.Agents, []string{"builder", "reviewer"}) || !slices.Equal(c.Sessions, []string{"reviewer"}) {
		t.Errorf("%+v", c)
	}
	if _, err := desk.Client.AllowWake(await.NewContext(t), client.WakeAllowParams{Peer: "laptop"}); err != nil {
		t.Fatal(err)
	}
	if c := discover(); !slices.Equal(c.Sessions, []string{"reviewer"}) { // nothing can wake this one
		t.Errorf("of who may wake it: %+v", c)
	}
	status, err := desk.Client.Status(await.NewContext(t))
	if err != nil || !slices.Contains(status.Warnings, "reviewer cannot be woken: acpctl knows no way to wake this program") {
		t.Errorf("the owner reads %q, %v", status.Warnings, err)
	}
}

// When the session ends, its requests fail at once.
func TestASessionThatEnds(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	reviewer := desk.startSession("reviewer", "--attach")
	desk.attached("reviewer")
	asked := make(chan error, 1)
	go func() {
		_, err := laptop.Client.Query(await.NewContext(t), patient("desk/reviewer", "Still there?"))
		asked <- err
	}()
	reviewer.openRequest("Still there?")
	given, err := laptop.Client.Delegate(await.NewContext(t), work("desk/reviewer", "Build it."))
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	reviewer.Close()
	is(t, kinds.NoAgent, await.Receive(t, "the query's end", asked))
	task, err := laptop.Client.Wait(await.NewContext(t), client.WaitParams{ID: given.ID})
	if err != nil || task.State != client.TaskFailed || !strings.Contains(string(task.Result), "no_agent") {
		t.Errorf("the delegation: %+v, %v", task, err)
	}
	await.CheckDuration(t, "what a session leaves ends", time.Since(begun), 5*time.Second+slack)
}
