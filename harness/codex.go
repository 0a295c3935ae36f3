package harness

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
)

// codexTitle is what people call the program.
const codexTitle = "Codex"

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
	version   string        // as the app-server says, which has started this process and so stays the same
	changed   pace.Signal   // the thread has become known
	callTime  time.Duration // bounds one call

	approvalTime time.Duration // bounds how long the user is asked in a turn that this process has begun
	connectPause time.Duration // between two connections of the watch
	unloadTime   time.Duration // after which a thread that is still loaded has a terminal

	mu       sync.Mutex // guards what follows
	thread   string     // as the latest tool call named it; empty before
	injected string     // the thread to which acpd has added an item; empty if it has added none
	closedAt time.Time  // when the thread's first terminal was first seen closed; zero if it was open at the latest look
	turnless string     // the thread that cannot be woken before its first turn: Codex refused our item; may be empty
	turn     *codexTurn // the latest that this process has begun; nil if it has ended
}

// findCodex returns the thread of Codex that has started this process.
func findCodex(ctx context.Context, env *Environment, ps *processes) (Session, error) {
	fail := func(err error) (Session, error) {
		saw := ownwords.Of(err)
		if e, ok := errors.AsType[*Error](err); ok {
			if e.Err == ErrUnsupported {
				return nil, err
			}
			saw = e.Reason()
		}
		return nil, &Error{Harness: codexName, Version: env.Version, Err: ErrUnsupported, Saw: saw}
	}
	c := &codex{lifetime: newLifetime(), dir: env.Dir, processes: ps, changed: pace.NewSignal(), callTime: codexTime, approvalTime: approvalTime, connectPause: connectPause, unloadTime: unloadTime}
	var err error
	if c.socket, err = findCodexSocket(env, ps); err != nil {
		return fail(err)
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return fail(err)
	}
	defer conn.close()
	c.version = conn.version
	if err = checkVersion(codexName, c.version); err == nil {
		err = probeCodex(ctx, conn, c.version)
	}
	if err != nil {
		return fail(err)
	}
	return c, nil
}

// findCodexSocket returns the control socket of the app-server: it is in Codex's home, where
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
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errNotParent) {
			err = explainNoSocket(env, home, err)
		}
		saw = append(saw, ownwords.Of(err))
	}
	return "", ownwords.New(strings.Join(saw, "; "))
}

// noAppServer says which sessions of Codex cannot be woken.
const noAppServer = "codex exec, and codex with -c, --search or -p, use none: start codex without them"

// explainNoSocket says in plain words why no app-server in a home of Codex is this session's.
func explainNoSocket(env *Environment, home string, err error) error {
	shown := home
	if below, ok := strings.CutPrefix(home, env.Getenv("HOME")+"/"); ok {
		shown = "~/" + below
	}
	if errors.Is(err, errNotParent) {
		return ownwords.Errorf("the app-server of %s has not started this session; %s", shown, noAppServer)
	}
	if _, err := os.Stat(home); err != nil {
		return ownwords.Errorf("it has no folder %s here", shown)
	}
	return ownwords.Errorf("no app-server runs in %s; %s", shown, noAppServer)
}

// Harness returns the name and version of Codex.
func (c *codex) Harness() (name, version string) { return codexName, c.version }

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
	return c.post(ctx, c, &p, func(ctx context.Context) (Posted, error) {
		conn, err := c.connect(ctx)
		if err != nil {
			return Posted{}, err
		}
		defer conn.close()
		thread, err := c.findThread(ctx, conn)
		if err == nil {
			err = c.awaitIdle(ctx, conn, thread, p.Unattended)
		}
		if err != nil {
			return Posted{}, err
		}
		if !conn.discardNotices() {
			return Posted{}, c.fail(ErrGone, conn.readCause())
		}
		return c.startTurn(ctx, conn, thread, p)
	})
}

// connect makes a connection to the app-server, which must be a parent of this process.
func (c *codex) connect(ctx context.Context) (*codexConn, error) {
	stream, _, err := c.processes.dialParent(c.socket)
	if err != nil {
		return nil, c.fail(ErrGone, err)
	}
	conn, err := newCodexConn(ctx, stream, c.callTime)
	if err != nil {
		return nil, c.fail(ErrGone, err)
	}
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
	conn.version = readUserAgent(who.UserAgent)
	return conn, nil
}

// readUserAgent returns the version in a text like "acpd/0.169.0 (Linux …)".
func readUserAgent(text string) string {
	_, rest, _ := strings.Cut(text, "/")
	number, _, _ := strings.Cut(rest, " ")
	return number[:min(len(number), 40)]
}

// startTurn begins the turn, and waits for the proof that the model has what it begins with.
func (c *codex) startTurn(ctx context.Context, conn *codexConn, thread string, p Post) (Posted, error) {
	id := p.Message.String()
	params := map[string]any{
		"threadId": thread, "clientUserMessageId": id, "turnTrigger": "acpd",
		"input": []any{map[string]any{"type": "text", "text": cmp.Or(p.Given, p.Pointer)}},
	}
	if p.Untrusted != "" {
		params["additionalContext"] = map[string]any{
			id: map[string]any{"kind": "untrusted", "name": "acp_message", "value": p.Untrusted},
		}
	}
	err := conn.call(ctx, "turn/start", params, nil)
	_, refused := errors.AsType[*codexError](err)
	if refused || errors.Is(err, errNotSent) {
		return Posted{}, c.explain(err)
	}
	c.noteTurn(&codexTurn{thread: thread, post: &p, begun: time.Now()}) // also if its answer was lost
	if err != nil {
		return Posted{}, c.explain(err)
	}
	enough := time.After(proofTime)
	for {
		select {
		case n, ok := <-conn.notices:
			if !ok {
				return Posted{}, nil
			}
			if n.method == noticeItem && n.params.Thread == thread && n.params.Item.Type == itemOfUser && n.params.Item.ClientID == id {
				return Posted{Proven: p.Untrusted != ""}, nil
			}
		case <-enough:
			return Posted{}, nil
		case <-ctx.Done():
			return Posted{}, nil
		}
	}
}

// explain makes an error of a failed call.
func (c *codex) explain(err error) error {
	if _, explained := errors.AsType[*Error](err); explained {
		return err
	}
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
	return &Error{Harness: codexName, Version: c.version, Err: err, Saw: ownwords.Of(saw)}
}
