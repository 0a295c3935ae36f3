package harness

import (
	"context"
	"errors"
	"net"
	"net/url"
	"syscall"
	"time"
)

// codexTerminal is the MCP server by which a terminal of Codex gives the threads that it starts tools of
// its own. It listens on 127.0.0.1 while the terminal is open.
const codexTerminal = "codex_tui"

// unloadTime is longer than Codex keeps a thread loaded in which nothing runs and that no terminal shows.
const unloadTime = 90 * time.Second

// isTerminalClosed reports whether the terminal that started a thread, in which nothing runs, is closed,
// and no other one shows the thread, for all that is known. Codex need not say which terminal that was.
// It does not say which other ones there are, but keeps a thread loaded for them.
func (c *codex) isTerminalClosed(ctx context.Context, conn *codexConn, thread string) bool {
	var result struct {
		Data []struct {
			Name   string `json:"name"`
			Origin string `json:"httpOrigin"`
		} `json:"data"`
	}
	params := map[string]any{"threadId": thread, "serverName": codexTerminal, "detail": "toolsAndAuthOnly"}
	if conn.call(ctx, "mcpServerStatus/list", params, &result) != nil {
		return c.noteTerminal(false)
	}
	for _, s := range result.Data {
		if at, err := url.Parse(s.Origin); s.Name == codexTerminal && err == nil && at.Hostname() == "127.0.0.1" {
			return c.noteTerminal(refusesConnections(ctx, at.Host))
		}
	}
	return c.noteTerminal(false)
}

// noteTerminal notes whether the first terminal of the thread is closed, for all that is known. It reports
// whether the terminal has been closed for less than unloadTime; later, another terminal must keep the thread
// loaded.
func (c *codex) noteTerminal(closed bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !closed {
		c.closedAt = time.Time{}
		return false
	}
	if c.closedAt.IsZero() {
		c.closedAt = time.Now()
	}
	return time.Since(c.closedAt) < c.unloadTime
}

// refusesConnections reports whether nothing listens at an address.
func refusesConnections(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
