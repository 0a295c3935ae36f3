//go:build agents

package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// controls are what moves the cursor, colours text, and names windows.
var controls = regexp.MustCompile(`\x1b(\[[0-9;?<>=]*[a-zA-Z]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][A-Z0-9]|[=>78M])`)

// claudeCode is a session of Claude Code that lives.
type claudeCode struct {
	*program
	person *person
}

// configureClaude writes Claude Code's MCP configuration, and returns its arguments.
func (p *person) configureClaude(server []string) []string {
	p.t.Helper()
	config, err := json.Marshal(object{"mcpServers": object{"acp": object{"command": server[0], "args": server[1:]}}})
	if err != nil {
		p.t.Fatal(err)
	}
	return []string{"--strict-mcp-config", "--mcp-config", p.write("mcp.json", string(config)), "--allowedTools", "mcp__acp__*"}
}

// claudeEnvironment is what Claude Code is told.
func (p *person) claudeEnvironment() []string {
	return p.environment("ANTHROPIC_BASE_URL="+p.model.server.URL, "ANTHROPIC_API_KEY=sk-ant-dummy", "IS_SANDBOX=1",
		"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "TMPDIR="+p.home)
}

// startClaude starts a session that is driven by lines of JSON, and waits until it is idle
// after its first turn.
func (p *person) startClaude(server []string, flags ...string) *claudeCode {
	p.t.Helper()
	argv := append([]string{programs["claude"], "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"}, p.configureClaude(server)...)
	c := &claudeCode{p.start(p.claudeEnvironment(), append(argv, flags...)...), p}
	c.say("hello")
	c.awaitTurns(1)
	return c
}

// say has the user say something.
func (c *claudeCode) say(text string) {
	c.t.Helper()
	line, err := json.Marshal(object{"type": "user", "message": object{"role": "user", "content": text}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.press(string(line) + "\n")
}

// awaitTurns waits until so many turns have ended.
func (c *claudeCode) awaitTurns(n int) {
	c.t.Helper()
	await.Until(c.t, fmt.Sprintf("%d turns of Claude Code", n), func() bool { return c.countLines("result") >= n })
}

// An idle session is woken: the model is given the pointer, marked as another session's
// message, and fetches what waits.
func TestClaudeIsWoken(t *testing.T) {
	t.Parallel()
	p := newPerson(t, rule{"waits, id", []step{call("acp_inbox", nil)}})
	sockets := live.MakeTempDir(t)
	c := p.startClaude(childCommand(t, sockets))
	child := awaitChild(t, sockets)
	child.mustFind("claude", findVersion(t, "claude"))
	post := newPost()
	if r := child.post(post); r.Err != "" || r.Proven {
		t.Fatalf("post: %+v", r)
	}
	c.awaitTurns(2)
	r := p.model.awaitRequest("user", post.Pointer)
	if text := r.last("user"); !strings.Contains(text, `from-name="acpd"`) {
		t.Errorf("the model is given: %s", text)
	}
	p.model.awaitRequest("result", inboxText)
}

// startChild starts a session with a child that the test can ask.
func (p *person) startChild(flags ...string) (*claudeCode, *child) {
	p.t.Helper()
	sockets := live.MakeTempDir(p.t)
	c := p.startClaude(childCommand(p.t, sockets), flags...)
	child := awaitChild(p.t, sockets)
	child.mustFind("claude", findVersion(p.t, "claude"))
	return c, child
}

// A busy session is woken when its turn has ended, and not before.
func TestClaudeIsBusy(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	c, child := p.startChild()
	p.checkBusy(child, c.say)
	c.awaitTurns(3)
}

// setMode has the user switch the permission mode.
func (c *claudeCode) setMode(mode string) {
	c.t.Helper()
	n := c.countLines("control_response")
	c.press(`{"type":"control_request","request_id":"mode-` + mode + `","request":{"subtype":"set_permission_mode","mode":"` + mode + `"}}` + "\n")
	await.Until(c.t, "mode "+mode, func() bool { return c.countLines("control_response") > n })
}

// The mode that counts is that of the moment: a session is woken while its user is asked for
// permissions, not any more when the user has switched that off, and again when it is on.
func TestClaudeModeIsSwitched(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	c, child := p.startChild("--allow-dangerously-skip-permissions")
	turns := 1
	for _, mode := range []string{"default", "bypassPermissions", "plan", "bypassPermissions"} {
		c.setMode(mode)
		post := newPost()
		r := child.post(post)
		if mode == "bypassPermissions" {
			if r.Err != "unattended" {
				t.Errorf("mode %s: %+v", mode, r)
			}
			if p.model.find("user", post.Pointer) != nil {
				t.Errorf("mode %s: the model is given the pointer", mode)
			}
			continue
		}
		if r.Err != "" {
			t.Errorf("mode %s: %+v", mode, r)
		}
		turns++
		c.awaitTurns(turns)
	}
	post := newPost()
	post.Unattended = true
	if r := child.post(post); r.Err != "" {
		t.Errorf("unattended, as the owner allows: %+v", r)
	}
	c.awaitTurns(turns + 1)
}

// A session that was started without permissions is unattended.
func TestClaudeWithoutPermissions(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{"--dangerously-skip-permissions"}, {"--permission-mode=bypassPermissions"}, {"--permission-mode", "dontAsk"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			p := newPerson(t)
			_, child := p.startChild(flags...)
			post := newPost()
			if r := child.post(post); r.Err != "unattended" {
				t.Errorf("post: %+v", r)
			}
			if p.model.find("user", post.Pointer) != nil {
				t.Error("the model is given the pointer")
			}
		})
	}
}

// What the user wants to be asked about is held by Claude Code, and said to be held.
func TestClaudeHolds(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.write(".claude/settings.json", `{"crossSessionInbound":"hold"}`)
	_, child := p.startChild()
	child.postUntil("held", newPost())
	if p.model.find("user", "waits, id") != nil {
		t.Error("the model is given the pointer")
	}
}

// A session whose user refuses messages does not say either in which mode it is.
func TestClaudeRefuses(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.write(".claude/settings.json", `{"crossSessionInbound":"refuse"}`)
	_, child := p.startChild()
	post := newPost()
	post.Limit = 3 * time.Second
	if r := child.post(post); r.Err != "unattended" {
		t.Errorf("post: %+v", r)
	}
	post.Unattended = true
	child.postUntil("refused", post)
	if p.model.find("user", "waits, id") != nil {
		t.Error("the model is given the pointer")
	}
}

// The model may answer by Claude Code's own tool. What names the message is handed on, and
// anything else is refused in the same turn.
func TestClaudeAnswersByItself(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	c, child := p.startChild()
	from := regexp.MustCompile(`from="(uds:[^"]*)"`)
	post := newPost()
	send := func(text string) step {
		return step{tool: "SendMessage", input: func(q *request) map[string]any {
			for _, i := range q.items {
				if m := from.FindStringSubmatch(i.text); m != nil {
					return map[string]any{"to": m[1], "message": text, "summary": "an answer"}
				}
			}
			return nil
		}}
	}
	p.model.on("waits, id", send("no id in it"), send(post.Message.String()+": it is done"))
	if r := child.post(post); r.Err != "" {
		t.Fatalf("post: %+v", r)
	}
	c.awaitTurns(2)
	await.Until(t, "the answer is handed on", func() bool { return len(child.look().Replies) > 0 })
	if got, want := child.look().Replies, []string{post.Message.String() + ": " + post.Message.String() + ": it is done"}; !slices.Equal(got, want) {
		t.Errorf("replies %q, want %q", got, want)
	}
	await.Until(t, "the model hears of the refusal", func() bool {
		return slices.ContainsFunc(p.model.list(), func(r *request) bool { return strings.Contains(r.body, "was refused") })
	})
}

// startClaudeInATerminal starts a session in a terminal, with a child that the test can ask.
func (p *person) startClaudeInATerminal(flags ...string) (*program, *child) {
	p.t.Helper()
	sockets := live.MakeTempDir(p.t)
	c := p.openClaude(childCommand(p.t, sockets), flags...)
	child := awaitChild(p.t, sockets)
	child.mustFind("claude", findVersion(p.t, "claude"))
	return c, child
}

// openClaude starts Claude Code in a terminal.
func (p *person) openClaude(server []string, flags ...string) *program {
	p.t.Helper()
	p.write(".claude.json", `{"hasCompletedOnboarding":true,"theme":"dark-ansi","customApiKeyResponses":{"approved":["sk-ant-dummy"],"rejected":[]},"projects":{"`+p.dir+`":{"hasTrustDialogAccepted":true,"hasCompletedProjectOnboarding":true}}}`)
	argv := append([]string{programs["claude"]}, p.configureClaude(server)...)
	return p.startInTerminal(p.claudeEnvironment(), append(argv, flags...)...)
}

// A session in a terminal is woken while its user types.
func TestClaudeInATerminal(t *testing.T) {
	t.Parallel()
	p := newPerson(t, rule{"waits, id", []step{call("acp_inbox", nil)}})
	c, child := p.startClaudeInATerminal()
	c.press("a half-typed dra")
	post := newPost()
	if r := child.post(post); r.Err != "" {
		t.Fatalf("post: %+v", r)
	}
	p.model.awaitRequest("user", post.Pointer)
	p.model.awaitRequest("result", inboxText)
	c.awaitScreen("Message from @acpd")
	c.enter("ft")
	p.model.awaitRequest("user", "a half-typed draft")
}

// What the user is asked in the terminal stays the user's to answer: a wake waits behind it, and
// answers nothing.
func TestClaudeApprovalStaysTheUsers(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	file := filepath.Join(p.home, "made")
	isMade := func() bool {
		_, err := os.Stat(file)
		return err == nil
	}
	p.model.on("make it", call("Bash", map[string]any{"command": "touch " + file, "description": "to have it made"}))
	p.model.on("waits, id", call("acp_inbox", nil))
	c, child := p.startClaudeInATerminal("--permission-mode", "default")
	c.enter("make it")
	c.awaitScreen("Do you want to proceed")
	post := newPost()
	posted := goPost(child, post)
	select {
	case r := <-posted:
		t.Fatalf("posted while the user is asked: %+v", r)
	case <-time.After(2 * time.Second):
	}
	if isMade() || p.model.find("user", post.Pointer) != nil {
		t.Error("somebody has answered for the user")
	}
	c.press("1")
	await.Until(t, "it is made", isMade)
	if r := await.Receive(t, "the post", posted); r.Err != "" {
		t.Fatalf("post: %+v", r)
	}
	p.model.awaitRequest("result", inboxText)
}
