package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/pace"
)

// maxLoadedThreads bounds how many threads of the app-server are looked at for ours.
const maxLoadedThreads = 64

// codex is a thread of Codex's app-server, which runs the threads of all its terminals and has
// started this process for one of them. Each post is a connection of its own, as one more
// client of the app-server.
type codex struct {
	*lifetime
	socket    string
	dir       string // the working directory of this process, which is that of the thread
	processes *processes
	posts     gate
	loads     codexLoads
	changed   pace.Signal   // the thread has become known
	callTime  time.Duration // bounds one call

	mu      sync.Mutex // guards what follows
	version string     // as the app-server said at the latest connection
	thread  string     // as the latest tool call named it; empty before
	// background says whether another thread has started it; nil: not known
	background *bool
}

// findCodex returns the thread of Codex that has started this process.
func findCodex(ctx context.Context, env *Environment, ps *processes) (Session, error) {
	fail := func(saw string) (Session, error) {
		return nil, &Error{Harness: codexName, Version: env.Version, Err: ErrUnsupported, Saw: saw}
	}
	c := &codex{lifetime: newLifetime(), dir: env.Dir, processes: ps, posts: newGate(), loads: newCodexLoads(), changed: pace.NewSignal(), callTime: codexTime}
	var err error
	if c.socket, err = findCodexSocket(env, ps); err != nil {
		return fail(err.Error())
	}
	conn, err := c.connect(ctx) // which learns the version
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok && e.Err != ErrUnsupported {
			return fail(e.Reason())
		}
		return nil, err
	}
	conn.close()
	return c, nil
}

// findCodexSocket returns the control socket of the app-server: it lies in Codex's home, where
// the app-server also keeps the program that it runs.
func findCodexSocket(env *Environment, ps *processes) (string, error) {
	const inHome = "app-server-control/app-server-control.sock"
	var homes []string
	for _, p := range ps.listParents() {
		if home, _, ok := strings.Cut(p.program, "/packages/app-server-daemon/"); ok {
			homes = append(homes, home)
		}
	}
	if home := env.Getenv("CODEX_HOME"); home != "" {
		homes = append(homes, home)
	}
	homes = append(homes, filepath.Join(env.Getenv("HOME"), ".codex"))
	var saw []string
	for _, home := range homes {
		path, err := filepath.EvalSymlinks(filepath.Join(home, inHome))
		if err == nil {
			conn, _, dialErr := ps.dialParent(path)
			if dialErr == nil {
				return path, conn.Close()
			}
			err = dialErr
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = explainNoSocket(env, home)
		}
		saw = append(saw, err.Error())
	}
	return "", errors.New(strings.Join(saw, "; "))
}

// explainNoSocket says in plain words why a home of Codex has no socket.
func explainNoSocket(env *Environment, home string) error {
	shown := home
	if below, ok := strings.CutPrefix(home, env.Getenv("HOME")+"/"); ok {
		shown = "~/" + below
	}
	if _, err := os.Stat(home); err != nil {
		return fmt.Errorf("it has no folder %s here", shown)
	}
	return fmt.Errorf("no app-server runs in %s; codex with -c and codex exec have none", shown)
}

// Harness returns the name and version of Codex.
func (c *codex) Harness() (name, version string) {
	return codexName, c.readVersion()
}

func (c *codex) readVersion() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// NoteCall learns the thread, which Codex names in each tool call.
func (c *codex) NoteCall(meta map[string]any) {
	if thread, _ := meta["threadId"].(string); thread != "" && len(thread) <= 64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.thread = thread
		c.changed.Set() // also where it was known: a call shows that the thread is in use
	}
}

// knownThread returns the thread that the latest tool call named, empty before the first.
func (c *codex) knownThread() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.thread
}

// Close ends the posts that are under way.
func (c *codex) Close() error {
	c.end()
	return nil
}

// Post begins a turn in the thread as soon as it is idle. Untrusted goes where Codex shows it
// to the model as the result of a tool.
func (c *codex) Post(ctx context.Context, p Post) (Posted, error) {
	return post(ctx, c, c.lifetime, c.posts, &p, func(ctx context.Context) (_ Posted, passed bool, _ error) {
		conn, err := c.connect(ctx)
		if err != nil {
			return Posted{}, false, err
		}
		defer conn.close()
		thread, err := c.findThread(ctx, conn)
		if err == nil {
			err = c.awaitIdle(ctx, conn, thread, p.Unattended)
		}
		if err != nil {
			return Posted{}, false, err
		}
		if !conn.discardNotices() {
			return Posted{}, false, c.fail(ErrGone, conn.readCause())
		}
		return c.startTurn(ctx, conn, thread, p)
	})
}

// connect makes a connection to the app-server, which must be a parent of this process.
func (c *codex) connect(ctx context.Context) (*codexConn, error) {
	stream, server, err := c.processes.dialParent(c.socket)
	if err != nil {
		return nil, c.fail(ErrGone, err)
	}
	conn, err := newCodexConn(ctx, stream, c.callTime)
	if err != nil {
		return nil, c.fail(ErrGone, err)
	}
	conn.server = server.pid
	var who struct {
		UserAgent string `json:"userAgent"`
	}
	params := map[string]any{
		"clientInfo":   map[string]any{"name": "acpd", "title": "acpd", "version": "1"},
		"capabilities": map[string]any{"experimentalApi": true},
	}
	if err = conn.call(ctx, "initialize", params, &who); err == nil {
		err = conn.notify(ctx, "initialized")
	}
	if err != nil {
		conn.close()
		return nil, c.fail(ErrGone, err)
	}
	version := readUserAgent(who.UserAgent)
	c.mu.Lock()
	c.version = version
	c.mu.Unlock()
	if err := checkVersion(codexName, version); err != nil {
		conn.close()
		return nil, err
	}
	return conn, nil
}

// readUserAgent returns the version in a text like "acpd/0.169.0 (Linux …)".
func readUserAgent(text string) string {
	_, rest, _ := strings.Cut(text, "/")
	number, _, _ := strings.Cut(rest, " ")
	return number[:min(len(number), 40)]
}

// codexThread is a thread as the app-server describes it.
type codexThread struct {
	ID        string      `json:"id"`
	Ephemeral bool        `json:"ephemeral"`
	Status    codexStatus `json:"status"`
	Dir       string      `json:"cwd"`
	Parent    string      `json:"parentThreadId"` // whose agent it is; empty: none's
	Fork      string      `json:"forkedFromId"`   // whose copy it is; empty: none's
}

// findThread returns the thread that this process belongs to: the one that a tool call has named.
// Before the first it has one called. If Codex does not do that, it is the only one in this directory.
func (c *codex) findThread(ctx context.Context, conn *codexConn) (string, error) {
	if thread := c.knownThread(); thread != "" {
		return thread, nil
	}
	loaded, err := c.listLoaded(ctx, conn)
	if err != nil {
		return "", err
	}
	var here []string
	for _, id := range loaded {
		t, err := c.readThread(ctx, conn, id)
		if err != nil {
			return "", err
		}
		if t.Ephemeral || t.Dir != c.dir {
			continue
		}
		here = append(here, id)
		if err := c.haveCalled(ctx, conn, id); err != nil {
			return "", err
		}
		if thread := c.knownThread(); thread != "" {
			return thread, nil
		}
	}
	switch len(here) {
	case 0:
		return "", c.fail(ErrNoThread, errors.New("it has no thread in this directory"))
	case 1:
		return here[0], nil
	}
	return "", c.fail(ErrNoThread, errors.New("it has several threads in this directory"))
}

// The MCP server of a thread that acpctl setup has connected, and a tool that it does not have.
const (
	ownServer = "acp"
	noTool    = "acp_thread"
)

// haveCalled has the app-server call a tool of a thread's own acpctl. There is none of that name, so
// nothing happens but that the acpctl is told its thread. If that is this one, it is known afterwards.
func (c *codex) haveCalled(ctx context.Context, conn *codexConn, thread string) error {
	params := map[string]any{"threadId": thread, "server": ownServer, "tool": noTool, "arguments": struct{}{}}
	err := conn.call(ctx, "mcpServer/tool/call", params, nil)
	if _, refused := errors.AsType[*codexError](err); err != nil && !refused {
		return c.explain(err)
	}
	return nil
}

// listLoaded returns the threads that the app-server has in memory.
func (c *codex) listLoaded(ctx context.Context, conn *codexConn) ([]string, error) {
	var loaded struct {
		Data []string `json:"data"`
	}
	if err := conn.call(ctx, "thread/loaded/list", struct{}{}, &loaded); err != nil {
		return nil, c.explain(err)
	}
	if len(loaded.Data) > maxLoadedThreads {
		return nil, c.fail(ErrNoThread, fmt.Errorf("it has %d threads", len(loaded.Data)))
	}
	return loaded.Data, nil
}

func (c *codex) readThread(ctx context.Context, conn *codexConn, id string) (t codexThread, _ error) {
	var result struct {
		Thread codexThread `json:"thread"`
	}
	if err := conn.call(ctx, "thread/read", map[string]any{"threadId": id}, &result); err != nil {
		return t, c.explain(err)
	}
	return result.Thread, nil
}

// awaitIdle waits until no turn runs in the thread, and checks that it is one that the user
// sees, and that somebody attends it unless that does not matter. From then on the connection
// hears what happens in the thread.
func (c *codex) awaitIdle(ctx context.Context, conn *codexConn, thread string, unattended bool) error {
	for {
		t, err := c.readThread(ctx, conn, thread)
		switch {
		case err != nil:
			return err
		case t.Ephemeral:
			return c.fail(ErrNoThread, errors.New("its thread is one that nobody sees"))
		case t.Status.Type == "active":
			if err := c.awaitChange(ctx, conn, thread); err != nil {
				return err
			}
			continue
		case t.Status.Type != "idle":
			return c.fail(ErrGone, fmt.Errorf("its thread is %.40q", t.Status.Type))
		}
		if err := c.checkBegun(ctx, conn, thread); err != nil {
			return err
		}
		var r codexResumed
		if err := conn.call(ctx, "thread/resume", map[string]any{"threadId": thread, "excludeTurns": true}, &r); err != nil {
			return c.explain(err)
		}
		view, err := c.look(ctx, conn, thread)
		if err != nil {
			return err
		}
		if saw := cmp.Or(r.explainUnattended(), view.unseen); saw != "" && !unattended {
			return c.fail(ErrUnattended, errors.New(saw))
		}
		if r.Thread.Status.Type != "active" {
			return nil
		}
	}
}

// awaitChange waits until a thread is something else than active, or for askAgain.
func (c *codex) awaitChange(ctx context.Context, conn *codexConn, thread string) error {
	// A change that comes between reading the status and waiting is in the queue.
	again := time.After(askAgain)
	for {
		select {
		case n, ok := <-conn.notices:
			if !ok {
				return c.fail(ErrGone, conn.readCause())
			}
			if n.method == noticeStatus && n.params.Thread == thread && n.params.Status.Type != "active" {
				return nil
			}
		case <-again:
			return nil
		case <-ctx.Done():
			return c.fail(ErrBusy, ctx.Err())
		}
	}
}

// codexResumed is what thread/resume says of a thread.
type codexResumed struct {
	Thread   codexThread    `json:"thread"`
	Policy   jsontext.Value `json:"approvalPolicy"`
	Reviewer string         `json:"approvalsReviewer"`
	Sandbox  codexSandbox   `json:"sandbox"`
}

type codexSandbox struct {
	Type string `json:"type"`
}

// explainUnattended returns why nobody is asked before tools of the thread run, or an empty
// text if somebody is.
func (r *codexResumed) explainUnattended() string {
	asking := []string{`"untrusted"`, `"on-request"`, `"on-failure"`}
	confined := []string{"readOnly", "workspaceWrite"}
	switch {
	case !slices.Contains(asking, string(r.Policy)):
		return fmt.Sprintf("its approval policy is %.60s", r.Policy)
	case r.Reviewer != "user":
		return fmt.Sprintf("its approvals are given by %.40q", r.Reviewer)
	case !slices.Contains(confined, r.Sandbox.Type):
		return fmt.Sprintf("its sandbox is %.40q", r.Sandbox.Type)
	}
	return ""
}

// checkBegun returns ErrNoTurn if the thread has had no turn. Codex lets nobody join such a thread,
// and so does not say who is asked before its tools run.
func (c *codex) checkBegun(ctx context.Context, conn *codexConn, thread string) error {
	err := conn.call(ctx, "thread/turns/list", map[string]any{"threadId": thread, "limit": 1}, nil)
	refusal, refused := errors.AsType[*codexError](err)
	switch {
	case err == nil:
		return nil
	case refused && refusal.Code == codexRefused:
		return &Error{Harness: codexName, Version: c.readVersion(), Err: ErrNoTurn}
	}
	return c.explain(err)
}

// startTurn begins the turn, and waits for the proof that the model has what it begins with. It
// reports whether the turn has begun, or may have.
func (c *codex) startTurn(ctx context.Context, conn *codexConn, thread string, p Post) (_ Posted, begun bool, _ error) {
	id := p.Message.String()
	params := map[string]any{
		"threadId": thread, "clientUserMessageId": id, "turnTrigger": "acpd",
		"input": []any{map[string]any{"type": "text", "text": p.Pointer}},
	}
	if p.Untrusted != "" {
		params["additionalContext"] = map[string]any{
			id: map[string]any{"kind": "untrusted", "name": "acp_message", "value": p.Untrusted},
		}
	}
	if err := conn.call(ctx, "turn/start", params, nil); err != nil {
		_, refused := errors.AsType[*codexError](err)
		return Posted{}, !refused && !errors.Is(err, errNotSent), c.explain(err)
	}
	enough := time.After(proofTime)
	for {
		select {
		case n, ok := <-conn.notices:
			if !ok {
				return Posted{}, true, nil
			}
			if n.method == noticeItem && n.params.Thread == thread && n.params.Item.Type == "userMessage" && n.params.Item.ClientID == id {
				return Posted{Proven: p.Untrusted != ""}, true, nil
			}
		case <-enough:
			return Posted{}, true, nil
		case <-ctx.Done():
			return Posted{}, true, nil
		}
	}
}

// explain makes an error of a failed call.
func (c *codex) explain(err error) error {
	refusal, ok := errors.AsType[*codexError](err)
	switch {
	case !ok:
		return c.fail(ErrGone, err)
	case refusal.Code == codexNotFound:
		return c.fail(ErrUnsupported, err)
	}
	return c.fail(ErrRefused, err)
}

func (c *codex) fail(err, saw error) error {
	name, version := c.Harness()
	return &Error{Harness: name, Version: version, Err: err, Saw: saw.Error()}
}
