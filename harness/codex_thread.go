package harness

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/ownwords"
)

// codexThread is a thread as the app-server describes it.
type codexThread struct {
	ID        string         `json:"id"`
	Status    codexStatus    `json:"status"`
	Dir       string         `json:"cwd"`
	Ephemeral jsontext.Value `json:"ephemeral"`      // false: Codex does not keep it from its user
	Parent    jsontext.Value `json:"parentThreadId"` // null: it is no other thread's agent
}

// isHidden reports whether no user sees the thread, or its answer does not say that one does.
func (t *codexThread) isHidden() bool {
	return string(t.Ephemeral) != "false" || string(t.Parent) != "null"
}

// errHidden says that a turn in the thread would be seen by nobody.
var errHidden = ownwords.New("its thread is one that nobody sees")

// findThread returns the thread that this process belongs to: the one that the latest tool call has named.
// Before the first call it has Codex call a tool in each thread. If Codex does not do that, it is the only
// thread in this directory; then each thread must have said in which directory it is.
func (c *codex) findThread(ctx context.Context, conn *codexConn) (string, error) {
	if thread := c.knownThread(); thread != "" {
		return thread, nil
	}
	loaded, err := c.listLoaded(ctx, conn)
	if err != nil {
		return "", err
	}
	var here []string
	var unread error
	for _, id := range loaded {
		t, err := c.readThread(ctx, conn, id)
		unread = cmp.Or(unread, err)
		if err != nil || t.isHidden() || t.Dir != c.dir {
			continue
		}
		here = append(here, id)
		c.haveCalled(ctx, conn, id)
		if thread := c.knownThread(); thread != "" {
			return thread, nil
		}
	}
	switch {
	case unread != nil:
		return "", unread
	case len(here) == 0:
		return "", c.fail(ErrNoThread, ownwords.New("it has no thread in this directory"))
	case len(here) == 1:
		return here[0], nil
	}
	return "", c.fail(ErrNoThread, ownwords.New("it has several threads in this directory"))
}

// The MCP server of a thread that acpctl setup has connected, and a tool that it does not have.
const (
	ownServer = "acp"
	noTool    = "acp_thread"
)

// haveCalled makes the app-server call a tool of a thread's own acpctl. No tool has that name, so
// the only effect is that the acpctl learns its thread. If that is this one, it is known afterwards.
func (c *codex) haveCalled(ctx context.Context, conn *codexConn, thread string) {
	params := map[string]any{"threadId": thread, "server": ownServer, "tool": noTool, "arguments": struct{}{}}
	conn.call(ctx, "mcpServer/tool/call", params, nil) // it is refused, and may be slow
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
		return nil, c.fail(ErrNoThread, ownwords.Errorf("it has %d threads", len(loaded.Data)))
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

// awaitIdle waits until no turn runs in the thread, and checks that it is one that the user sees, and that
// somebody is asked before tools run unless that does not matter. From then on the connection is notified of what
// happens in the thread.
func (c *codex) awaitIdle(ctx context.Context, conn *codexConn, thread string, unattended bool) error {
	for {
		t, err := c.readThread(ctx, conn, thread)
		if err != nil {
			return err
		}
		if t.Status.Type == statusActive {
			if err := c.awaitChange(ctx, conn, thread); err != nil {
				return err
			}
			continue
		}
		if err := c.checkIdle(ctx, conn, &t); err != nil {
			return err
		}
		r, err := c.joinThread(ctx, conn, thread)
		if err != nil {
			return err
		}
		if r.Thread.Status.Type == statusActive { // a turn has begun meanwhile
			if err := c.awaitChange(ctx, conn, thread); err != nil {
				return err
			}
			continue
		}
		if err := c.checkIdle(ctx, conn, &r.Thread); err != nil {
			return err
		}
		if saw := r.explainUnattended(); saw != "" && !unattended {
			return c.fail(ErrUnattended, ownwords.New(saw))
		}
		return nil
	}
}

// joinThread subscribes the connection to a thread, and returns what Codex reports about the thread.
// Codex lets nobody join a thread that has nothing in its file, as before its first turn. Such a thread
// gets an item that no model reads, once.
func (c *codex) joinThread(ctx context.Context, conn *codexConn, thread string) (*codexResumed, error) {
	for {
		var r codexResumed
		err := conn.call(ctx, "thread/resume", map[string]any{"threadId": thread, "excludeTurns": true}, &r)
		if err == nil {
			return &r, nil
		}
		refusal, refused := errors.AsType[*codexError](err)
		if !refused || refusal.Code != codexRefused || !c.noteInjected(thread) {
			return nil, c.explain(err)
		}
		if err := conn.call(ctx, "thread/inject_items", map[string]any{"threadId": thread, "items": []any{firstItem}}, nil); err != nil {
			_, refused := errors.AsType[*codexError](err)
			c.forgetInjected(refused)
			if refused {
				return nil, &Error{Harness: codexName, Version: c.version, Err: ErrNoTurn}
			}
			return nil, c.explain(err)
		}
	}
}

// firstItem is what a thread gets that has had no turn. Codex does not show it, and does not give it to a
// model.
var firstItem = map[string]any{
	"type": "message", "role": "system",
	"content": []any{map[string]any{"type": "input_text", "text": "acpd has opened this conversation, so that a message can begin a turn of it."}},
}

// noteInjected notes that a thread gets an item. It reports false if that thread has one.
func (c *codex) noteInjected(thread string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.injected == thread {
		return false
	}
	c.injected = thread
	return true
}

// forgetInjected notes that the thread has got no item. If Codex has refused that, the thread cannot be
// woken before its first turn.
func (c *codex) forgetInjected(refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if refused {
		c.turnless = c.injected
		c.changed.Set()
	}
	c.injected = ""
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
			if n.method == noticeStatus && n.params.Thread == thread && n.params.Status.Type != statusActive {
				return nil
			}
		case <-again:
			return nil
		case <-ctx.Done():
			return c.fail(ErrBusy, ctx.Err())
		}
	}
}

// codexResumed is the answer of thread/resume about a thread. Members on which safety depends keep their JSON text,
// so that a value of another type is seen.
type codexResumed struct {
	Thread   codexThread    `json:"thread"`
	Policy   jsontext.Value `json:"approvalPolicy"`
	Reviewer jsontext.Value `json:"approvalsReviewer"`
	Sandbox  struct {
		Type    jsontext.Value `json:"type"`
		Network jsontext.Value `json:"networkAccess"` // of commands, about which nobody is asked
	} `json:"sandbox"`
}

// explainUnattended returns why nobody is asked before tools of the thread run, or an empty
// text if somebody is. A member that is absent, or has another type, means that nobody is asked.
func (r *codexResumed) explainUnattended() string {
	switch {
	case !asksUser(r.Policy):
		return "its approval policy is " + showWord(string(r.Policy), `"never"`)
	case string(r.Reviewer) != `"user"`:
		return "its approvals are given by " + showWord(string(r.Reviewer), `"auto_review"`, `"guardian_subagent"`)
	case !slices.Contains([]string{`"readOnly"`, `"workspaceWrite"`}, string(r.Sandbox.Type)):
		return "its sandbox is " + showWord(string(r.Sandbox.Type), `"dangerFullAccess"`, `"externalSandbox"`)
	case string(r.Sandbox.Network) != "false":
		return "its sandbox lets commands use the network"
	}
	return ""
}

// asksUser reports whether Codex asks a person, or refuses, before a tool does what the sandbox does not
// allow. A granular policy says of each kind of request whether it is asked or refused.
func asksUser(policy jsontext.Value) bool {
	if p := string(policy); p == `"untrusted"` || p == `"on-request"` {
		return true
	}
	var p map[string]map[string]jsontext.Value
	if json.Unmarshal(policy, &p) != nil || len(p) != 1 {
		return false
	}
	for _, asks := range p["granular"] {
		if k := asks.Kind(); k != 't' && k != 'f' {
			return false
		}
	}
	return len(p["granular"]) > 0
}
