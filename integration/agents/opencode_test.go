//go:build agents

package agents

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// openCode is a program of OpenCode that listens on a port.
type openCode struct {
	*program
	person *person
	url    string
}

const (
	openCodePassword = "dummy"
	openCodeStatus   = "/session/status"
)

// configureOpenCode writes OpenCode's configuration.
func (p *person) configureOpenCode(server []string) {
	p.t.Helper()
	config, err := json.Marshal(object{
		"model": "anthropic/claude-sonnet-4-5", "small_model": "anthropic/claude-sonnet-4-5", "autoupdate": false, "share": "disabled",
		"provider": object{"anthropic": object{"options": object{"baseURL": p.model.server.URL + "/v1", "apiKey": "dummy"}}},
		"mcp":      object{"acp": object{"type": "local", "command": server, "enabled": true}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(".config/opencode/opencode.json", string(config))
}

// startOpenCode starts a server, with variables beside those of every test, and has a session with a
// first turn.
func (p *person) startOpenCode(server []string, variables ...string) (o *openCode) {
	p.t.Helper()
	p.configureOpenCode(server)
	_, port, _ := net.SplitHostPort(live.PickTCPAddr(p.t))
	env := p.environment(append(variables, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1")...)
	o = &openCode{p.start(env, programs["opencode"], "serve", "--hostname", "127.0.0.1", "--port", port), p, "http://127.0.0.1:" + port}
	await.Until(p.t, "OpenCode answers", func() bool { return o.request(http.MethodGet, openCodeStatus, nil, nil) == nil })
	var s struct {
		ID string `json:"id"`
	}
	if err := o.request(http.MethodPost, "/session", object{}, &s); err != nil {
		p.t.Fatal(err)
	}
	o.prompt(s.ID, "hello")
	p.model.awaitRequest("user", "hello")
	o.awaitIdle()
	return o
}

// request makes a request as a client of OpenCode that its user has. One for its status has 5 s, and is to be made
// again: one that comes before all is up is not answered.
func (o *openCode) request(method, path string, body, result any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	limit := await.Patience
	if path == openCodeStatus {
		limit = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, o.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.SetBasicAuth("opencode", openCodePassword)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %.400s", method, path, response.Status, answer)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer, result)
}

func (o *openCode) prompt(session, text string) {
	o.t.Helper()
	err := o.request(http.MethodPost, "/session/"+session+"/prompt_async", object{"parts": []any{object{"type": "text", "text": text}}}, nil)
	if err != nil {
		o.t.Fatal(err)
	}
}

func (o *openCode) awaitIdle() {
	o.t.Helper()
	await.Until(o.t, "OpenCode is idle", func() bool {
		var busy map[string]any
		return o.request(http.MethodGet, openCodeStatus, nil, &busy) == nil && len(busy) == 0
	})
}

// A session of OpenCode is woken if the owner allows it for sessions that nobody attends: it
// does not say whether anybody does.
func TestOpenCodeIsWoken(t *testing.T) {
	t.Parallel()
	p := newPerson(t, rule{"waits, id", []step{call("acp_inbox", nil)}})
	sockets := live.MakeTempDir(t)
	o := p.startOpenCode(childCommand(t, sockets), "OPENCODE_SERVER_PASSWORD="+openCodePassword)
	child := awaitChild(t, sockets)
	child.mustFind("opencode", findVersion(t, "opencode"))
	post := newPost()
	if r := child.post(post); r.Err != "unattended" {
		t.Errorf("post: %+v", r)
	}
	post.Unattended = true
	if r := child.post(post); r.Err != "" {
		t.Fatalf("post: %+v", r)
	}
	p.model.awaitRequest("user", post.Pointer)
	p.model.awaitRequest("result", inboxText)
	o.awaitIdle()

	// With a second session, the one that has called is woken.
	var other struct {
		ID string `json:"id"`
	}
	if err := o.request(http.MethodPost, "/session", object{}, &other); err != nil {
		t.Fatal(err)
	}
	post = newPost()
	post.Unattended = true
	if r := child.post(post); r.Err != "" {
		t.Fatalf("post: %+v", r)
	}
	p.model.awaitRequest("user", post.Pointer)
	o.awaitIdle()
	var messages []any
	if err := o.request(http.MethodGet, "/session/"+other.ID+"/message", nil, &messages); err != nil || len(messages) != 0 {
		t.Errorf("the other session has %d messages, %v", len(messages), err)
	}
}

// A session of OpenCode whose port everybody on the machine can use is not woken, whatever the owner
// allows.
func TestOpenCodeWithoutAPassword(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	sockets := live.MakeTempDir(t)
	p.startOpenCode(childCommand(t, sockets))
	if f := awaitChild(t, sockets).look(); f.Name != "" || !strings.Contains(f.Err, "OPENCODE_SERVER_PASSWORD") {
		t.Errorf("found %+v", f)
	}
}

// A session of OpenCode whose agents ask before they run commands, change files and fetch pages is attended.
func TestOpenCodeAsks(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	sockets := live.MakeTempDir(t)
	p.startOpenCode(childCommand(t, sockets), "OPENCODE_SERVER_PASSWORD="+openCodePassword, `OPENCODE_PERMISSION={"bash":"ask","edit":"ask","webfetch":"ask"}`)
	post := newPost()
	if r := awaitChild(t, sockets).post(post); r.Err != "" {
		t.Fatalf("post: %+v", r)
	}
	p.model.awaitRequest("user", post.Pointer)
}
