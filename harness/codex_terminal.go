package harness

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"

	"github.com/acpd/acpd/internal/ownwords"
)

// codexTerminal is the MCP server by which a terminal of Codex gives the threads that it starts
// tools of its own. Its address tells the terminal of a thread.
const codexTerminal = "codex_tui"

// readTerminal returns the address of the terminal that has started a thread, or has had it loaded;
// empty if none has.
func (c *codex) readTerminal(ctx context.Context, conn *codexConn, thread string) (string, error) {
	var result struct {
		Data []struct {
			Name   string `json:"name"`
			Origin string `json:"httpOrigin"`
		} `json:"data"`
	}
	params := map[string]any{"threadId": thread, "serverName": codexTerminal, "detail": "toolsAndAuthOnly"}
	if err := conn.call(ctx, "mcpServerStatus/list", params, &result); err != nil {
		return "", c.explain(err)
	}
	for _, s := range result.Data {
		if s.Name == codexTerminal {
			return s.Origin, nil
		}
	}
	return "", nil
}

// codexView is what is known of the terminal that shows the thread.
type codexView struct {
	ended    func() bool // reports whether the terminal has ended; nil: there is none, or it is not seen
	unseen   string      // why nobody may see the thread, for all that is known; empty if a terminal shows it
	switched bool        // its terminal shows another thread
	over     bool        // the terminal had ended when it was looked at last
}

// hasEnded reports whether the terminal was seen, and has ended since.
func (v *codexView) hasEnded() bool { return v.ended != nil && v.ended() }

// look finds the terminal that shows a thread. A terminal is a process that the app-server has not
// started, that is connected to the app-server, and that gives the thread its tools. A terminal shows
// the thread that was loaded last for it. The error is that Codex does not answer.
func (c *codex) look(ctx context.Context, conn *codexConn, thread string) (v codexView, _ error) {
	origin, err := c.readTerminal(ctx, conn, thread)
	if err != nil {
		return v, err
	}
	port, err := parseLoopback(origin)
	if err == nil {
		v.ended, err = c.processes.findTerminal(conn.server, c.socket, port)
	}
	if err != nil {
		v.unseen = ownwords.Of(err)
		return v, nil
	}
	others, err := c.listBeside(ctx, conn, thread, origin)
	if err != nil {
		return v, err
	}
	if v.switched = slices.ContainsFunc(others, func(t codexThread) bool { return c.loads.isLater(t.ID, thread) }); v.switched {
		v.unseen = "its terminal shows another conversation"
	} else if v.switched, err = c.isInBackground(ctx, conn, thread, others); v.switched {
		v.unseen = "another conversation works in it"
	}
	return v, err
}

// parseLoopback returns the port of an address on this machine.
func parseLoopback(origin string) (port int, _ error) {
	if origin == "" {
		return 0, ownwords.New("no terminal has started its thread")
	}
	u, err := url.Parse(origin)
	if err == nil && u.Hostname() == "127.0.0.1" {
		port, err = strconv.Atoi(u.Port())
	}
	if port == 0 || err != nil {
		return 0, ownwords.New("its terminal is at no address of this machine")
	}
	return port, nil
}

// listBeside returns the other threads that the terminal of a thread has had loaded for its user.
func (c *codex) listBeside(ctx context.Context, conn *codexConn, thread, origin string) (others []codexThread, _ error) {
	loaded, err := c.listLoaded(ctx, conn)
	if err != nil {
		return nil, err
	}
	for _, id := range loaded {
		if id == thread {
			continue
		}
		t, err := c.readThread(ctx, conn, id)
		its := ""
		if err == nil && !t.Ephemeral && t.Parent == "" {
			its, err = c.readTerminal(ctx, conn, id)
		}
		if err != nil && !errors.Is(err, ErrRefused) { // a refused one is closed by now
			return nil, err
		}
		if its == origin {
			others = append(others, t)
		}
	}
	return others, nil
}
