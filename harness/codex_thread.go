package harness

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/ownwords"
)

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
		return "", c.fail(ErrNoThread, ownwords.New("it has no thread in this directory"))
	case 1:
		return here[0], nil
	}
	return "", c.fail(ErrNoThread, ownwords.New("it has several threads in this directory"))
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
			return c.fail(ErrNoThread, ownwords.New("its thread is one that nobody sees"))
		case t.Status.Type == "active":
			if err := c.awaitChange(ctx, conn, thread); err != nil {
				return err
			}
			continue
		case t.Status.Type != "idle":
			return c.fail(ErrGone, ownwords.New("its thread is "+showWord(t.Status.Type, "notLoaded", "systemError")))
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
			return c.fail(ErrUnattended, ownwords.New(saw))
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
		return "its approval policy is " + showWord(string(r.Policy), `"never"`)
	case r.Reviewer != "user":
		return "its approvals are given by " + showWord(r.Reviewer, "auto_review", "guardian_subagent")
	case !slices.Contains(confined, r.Sandbox.Type):
		return "its sandbox is " + showWord(r.Sandbox.Type, "dangerFullAccess", "externalSandbox")
	}
	return ""
}

// checkBegun returns the error of listTurns: ErrNoTurn if the thread has had no turn.
func (c *codex) checkBegun(ctx context.Context, conn *codexConn, thread string) error {
	_, err := c.listTurns(ctx, conn, thread, 1)
	return err
}
