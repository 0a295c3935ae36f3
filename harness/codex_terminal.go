package harness

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// codexTerminal is the MCP server by which a terminal of Codex gives the threads that it starts
// tools of its own. Its address tells the terminal of a thread.
const codexTerminal = "codex_tui"

// startMargin is how long before this process its thread was loaded at most. The app-server starts
// the MCP servers of a thread when it loads it, before its terminal can have another one loaded.
const startMargin = 500 * time.Millisecond

// processStart is when this process began.
var processStart = time.Now()

// maxLoads bounds how many threads are remembered, in number.
const maxLoads = 4 * maxLoadedThreads

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
		v.unseen = err.Error()
		return v, nil
	}
	others, err := c.listBeside(ctx, conn, thread, origin)
	if err != nil {
		return v, err
	}
	if v.switched = slices.ContainsFunc(others, func(t codexThread) bool { return c.loads.isLater(t.ID, thread) }); v.switched {
		v.unseen = "its terminal shows another conversation"
	} else if v.switched, err = c.isInBackground(ctx, conn, thread, others); v.switched {
		v.unseen = "another conversation has started it"
	}
	return v, err
}

// parseLoopback returns the port of an address on this machine.
func parseLoopback(origin string) (port int, _ error) {
	if origin == "" {
		return 0, errors.New("no terminal has started its thread")
	}
	u, err := url.Parse(origin)
	if err == nil && u.Hostname() != "127.0.0.1" {
		err = fmt.Errorf("its terminal is at %.40q", origin)
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(u.Port())
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

// isInBackground reports whether the model of another thread has started this thread, with a tool of
// the terminal. The terminal does not show such a thread. The first look tells it from a thread that
// the user has started: the user starts none while a turn runs in another thread, and has said nothing
// in a new one when its acpctl first looks.
func (c *codex) isInBackground(ctx context.Context, conn *codexConn, thread string, others []codexThread) (bool, error) {
	c.mu.Lock()
	known := c.background
	c.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	is := false
	if made, ok := readThreadTime(thread); len(others) > 0 && (!ok || made.After(c.loads.began.Add(-startMargin))) {
		is = slices.ContainsFunc(others, func(t codexThread) bool { return t.Status.Type == "active" })
		t, err := c.readThread(ctx, conn, thread)
		if err == nil && !is && t.Fork == "" { // a fork has turns from the beginning
			if err = c.checkBegun(ctx, conn, thread); errors.Is(err, ErrNoTurn) {
				is, err = false, nil
			} else {
				is = true
			}
		}
		if err != nil {
			return false, err
		}
	}
	c.mu.Lock()
	c.background = &is
	c.mu.Unlock()
	return is, nil
}

// codexLoads remembers when threads of the app-server were loaded.
type codexLoads struct {
	began    time.Time // when this process began
	mu       sync.Mutex
	at       map[string]time.Time // of the threads that are loaded
	complete bool                 // no load is missed
}

func newCodexLoads() codexLoads {
	return codexLoads{began: processStart, at: make(map[string]time.Time)}
}

// begin notes the threads that are loaded when no load is missed any more. Each was loaded when it
// was made, or later.
func (l *codexLoads) begin(loaded []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.complete {
		return
	}
	l.complete = true
	for _, id := range loaded {
		if _, seen := l.at[id]; seen {
			continue // by a notification that came before
		}
		made, ok := readThreadTime(id)
		if !ok {
			made = time.Now()
		}
		l.at[id] = made
	}
}

// note takes a notification: a thread is loaded, or not any more.
func (l *codexLoads) note(n *codexNotice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, seen := l.at[n.params.Thread]
	switch {
	case n.method == noticeStarted:
		l.add(n.params.Started.ID)
	case n.method == noticeClosed, n.method == noticeStatus && n.params.Status.Type == "notLoaded":
		delete(l.at, n.params.Thread)
	case n.method == noticeStatus && !seen:
		l.add(n.params.Thread)
	}
}

// add notes that a thread is loaded now, if there is room. One that is not remembered counts as loaded
// later than all others.
func (l *codexLoads) add(thread string) {
	if len(l.at) < maxLoads {
		l.at[thread] = time.Now()
	}
}

// end says that loads may be missed from now on.
func (l *codexLoads) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.complete = false
	clear(l.at)
}

// isLater reports whether a thread was loaded later than that of this process, or may have been.
func (l *codexLoads) isLater(thread, own string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, seen := l.at[thread]
	if !seen {
		made, ok := readThreadTime(thread)
		if l.complete || !ok {
			return true
		}
		at = made
	}
	since := l.began.Add(-startMargin)
	for _, t := range []time.Time{l.at[own], madeAt(own)} {
		if t.After(since) {
			since = t
		}
	}
	return !at.Before(since)
}

// madeAt is readThreadTime, of which an id that is none gives the zero time.
func madeAt(thread string) time.Time {
	t, _ := readThreadTime(thread)
	return t
}

// readThreadTime returns when a thread was made, which its id says, a UUID of version 7.
func readThreadTime(id string) (time.Time, bool) {
	digits := strings.ReplaceAll(id, "-", "")
	if len(digits) != 32 || digits[12] != '7' {
		return time.Time{}, false
	}
	ms, err := strconv.ParseInt(digits[:12], 16, 64)
	return time.UnixMilli(ms), err == nil
}
