package harness

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/wire"
)

const (
	// modeTime is how long a session may take to say in which mode it is.
	modeTime = time.Second
	// askAgain is after how long a session is asked again that has not said that it is idle.
	askAgain = time.Minute
	// receiptTime is how long a receipt may take. Silence means that the session has the line.
	receiptTime = 300 * time.Millisecond
	// socketTime bounds one write or read on a session's sockets.
	socketTime = 5 * time.Second
)

// claude is a session of Claude Code. It is woken through the inbox socket of the session,
// which belongs to a parent of this process, and answers to a socket of this process.
type claude struct {
	*lifetime
	version   string
	socket    string   // the session's
	token     string   // which the session gave its children
	args      []string // the session's command line
	processes *processes
	reply     func(context.Context, wire.MessageID, string) error
	askAgain  time.Duration // after which a session is asked again that has not said that it is idle

	listener *net.UnixListener // on the socket that the session answers to
	from     string            // its address, as Claude Code writes it

	mu      sync.Mutex                    // guards what follows
	awaited map[string]chan<- claudeFrame // receipts and notices, by the frame that they are for
	woken   []wire.MessageID              // the last messages that the session was woken for
}

// findClaude returns the session of Claude Code that has started this process.
func findClaude(ctx context.Context, env *Environment, ps *processes) (Session, error) {
	fail := func(format string, args ...any) (Session, error) {
		return nil, &Error{Harness: claudeName, Version: env.Version, Err: ErrUnsupported, Saw: fmt.Sprintf(format, ownwords.Shown(args)...)}
	}
	if err := checkVersion(claudeName, env.Version); err != nil {
		return nil, err
	}
	socket := env.Getenv("CLAUDE_CODE_MESSAGING_SOCKET")
	if !filepath.IsAbs(socket) {
		return fail("it gave its child no messaging socket")
	}
	if !utf8.ValidString(socket) || strings.ContainsAny(socket, `"<>&`) || strings.ContainsFunc(socket, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fail("the path of its socket, %q, has characters that its marks cannot have", socket)
	}
	conn, parent, err := ps.dialParent(socket)
	if err != nil {
		return fail("%v", err)
	}
	conn.Close()
	if filepath.Base(socket) != fmt.Sprintf("%d.sock", parent.pid) {
		return fail("%s is not that of process %d", socket, parent.pid)
	}
	if err := probeClaude(ctx, env.Getenv, parent.pid, socket); err != nil {
		return fail("%v", err)
	}
	dir, err := os.Stat(filepath.Dir(socket))
	if err != nil {
		return fail("%v", err)
	}
	if dir.Mode().Perm()&0o077 != 0 {
		return fail("others can enter %s", filepath.Dir(socket))
	}
	c := &claude{
		lifetime: newLifetime(), version: env.Version, socket: socket, token: env.Getenv("CLAUDE_CODE_MESSAGING_TOKEN"), args: parent.args,
		processes: ps, reply: env.Reply, askAgain: askAgain, awaited: make(map[string]chan<- claudeFrame),
	}
	if err := c.listen(filepath.Dir(socket)); err != nil {
		return fail("%v", err)
	}
	return c, nil
}

// listen binds the socket that the session answers to, in the directory where it expects it.
func (c *claude) listen(dir string) error {
	var name [8]byte
	rand.Read(name[:])
	path := filepath.Join(dir, hex.EncodeToString(name[:])+".sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	c.listener, c.from = listener, "uds:"+path
	c.start(c.serve)
	return nil
}

// Harness returns the name and version of Claude Code.
func (c *claude) Harness() (name, version string) { return claudeName, c.version }

// NoteCall does nothing: the socket names the session.
func (c *claude) NoteCall(map[string]any) {}

// Close removes the socket that the session answers to, and ends what is under way.
func (c *claude) Close() error {
	err := c.listener.Close()
	c.end()
	if errors.Is(err, net.ErrClosed) { // closed before
		return nil
	}
	return err
}

// Post gives the session the pointer, as soon as the session says that it is idle and in
// which mode. A session that says nothing is busy, or cannot say it.
func (c *claude) Post(ctx context.Context, p Post) (Posted, error) {
	return c.post(ctx, c, &p, func(ctx context.Context) (Posted, error) {
		idle, mode, err := c.askMode(ctx, p.Unattended)
		if err != nil {
			return Posted{}, err
		}
		if saw := c.explainUnattended(mode); saw != "" && !p.Unattended {
			return Posted{}, c.fail(ErrUnattended, saw)
		}
		return Posted{}, c.givePointer(p, idle)
	})
}

// askMode asks the session to say when it is idle, which tells its mode. It waits for the
// answer, and no longer than modeTime if the session may be woken in any mode.
func (c *claude) askMode(ctx context.Context, anyMode bool) (idle bool, mode string, _ error) {
	answer := make(chan claudeFrame, 1)
	began := time.Now()
	var enough <-chan time.Time
	if anyMode {
		enough = time.After(modeTime)
	}
	for {
		f := claudeFrame{Type: typeControl, Action: actionTellIdle, Version: 1, ID: wire.NewMessageID().String(), From: c.from}
		c.await(f.ID, answer)
		defer c.forget(f.ID)
		if err := c.write(&f); err != nil {
			return false, "", err
		}
		select {
		case notice := <-answer:
			return true, notice.Mode, nil
		case <-enough:
			return false, "", nil
		case <-time.After(c.askAgain):
		case <-ctx.Done():
			return false, "", c.fail(ErrUnattended, fmt.Sprintf("it did not say within %s that it is idle, and in which mode", time.Since(began).Round(time.Millisecond)))
		}
	}
}

// explainUnattended returns why nobody is asked before tools of the session run, or an empty
// text if somebody is.
func (c *claude) explainUnattended(mode string) string {
	switch {
	case mode == "":
		return "it does not say in which mode it is"
	case mode != modePrompting:
		return "its mode is " + showWord(mode, "bypass")
	}
	if len(c.args) == 0 {
		return "its command line cannot be read"
	}
	if flag := findSkippingFlag(c.args); flag != "" {
		return "it was started with " + flag
	}
	return ""
}

// findSkippingFlag returns an argument of Claude Code by which nobody is asked.
func findSkippingFlag(args []string) string {
	const skip, mode = "--dangerously-skip-permissions", "--permission-mode"
	for i, arg := range args {
		value, isMode := strings.CutPrefix(arg, mode+"=")
		if arg == mode && i+1 < len(args) {
			value, isMode = args[i+1], true
		}
		if isMode && !slices.Contains([]string{"default", "acceptEdits", "plan", "auto"}, value) {
			return mode + " " + value
		}
		if name, value, _ := strings.Cut(arg, "="); name == skip && value != "false" {
			return skip
		}
	}
	return ""
}

// givePointer writes the pointer and waits for a receipt.
func (c *claude) givePointer(p Post, idle bool) error {
	priority := "next"
	if !idle {
		priority = "later" // a turn of its own after this one, if there is one
	}
	f := claudeFrame{
		Type: typeUser, Version: 1, ID: p.frameID(), From: c.from, Priority: priority,
		Message: &claudeMessage{Role: "user", Content: wrapForClaude(c.from, p.Pointer)},
	}
	receipt := make(chan claudeFrame, 1)
	c.await(f.ID, receipt)
	defer c.forget(f.ID)
	c.noteWoken(p.Message)
	if err := c.write(&f); err != nil {
		return err
	}
	select {
	case r := <-receipt:
		if saw, err := r.judge(); err != nil {
			return c.fail(err, saw)
		}
	case <-time.After(receiptTime):
	}
	return nil
}

// write sends a frame to the session, which must still be a parent of this process.
func (c *claude) write(f *claudeFrame) error {
	conn, _, err := c.processes.dialParent(c.socket)
	if err != nil {
		return c.fail(ErrGone, ownwords.Of(err))
	}
	defer conn.Close()
	var lines []byte
	if c.token != "" {
		lines = (&claudeFrame{Type: typeAuth, Token: c.token}).appendLine(nil)
	}
	conn.SetWriteDeadline(time.Now().Add(socketTime))
	defer context.AfterFunc(c.ctx, func() { conn.SetWriteDeadline(time.Now()) })()
	if _, err := conn.Write(f.appendLine(lines)); err != nil {
		return c.fail(ErrGone, ownwords.Of(err))
	}
	return nil
}

func (c *claude) fail(err error, saw string) error {
	return &Error{Harness: claudeName, Version: c.version, Err: err, Saw: saw}
}

// await sends the first frame that answers the frame id to answer, which has capacity 1. It ends with forget.
func (c *claude) await(id string, answer chan<- claudeFrame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaited[id] = answer
}

func (c *claude) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.awaited, id)
}

// maxWoken bounds the messages of a session that are remembered.
const maxWoken = 256

// noteWoken remembers that the session was woken for a message.
func (c *claude) noteWoken(id wire.MessageID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.woken, id) {
		c.woken = append(c.woken[max(0, len(c.woken)+1-maxWoken):], id)
	}
}

// findNamed returns the message that an answer names of those that the session was woken for. It reports
// false if the answer names none of them, or several.
func (c *claude) findNamed(answer string) (named wire.MessageID, ok bool) {
	answer = strings.ToLower(answer)
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, id := range c.woken {
		if strings.Contains(answer, id.String()) {
			named, n = id, n+1
		}
	}
	return named, n == 1
}

// serve reads what the session sends, until the listener is closed.
func (c *claude) serve() {
	for {
		conn, err := c.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors
			select {
			case <-time.After(socketTime):
				continue
			case <-c.ctx.Done():
				return
			}
		}
		c.running.Go(func() { c.serveConn(conn) }) // while serve runs, so none begins after end
	}
}

// serveConn reads the lines of one connection. Only the session itself is heard.
func (c *claude) serveConn(conn *net.UnixConn) {
	defer conn.Close()
	pid, err := c.processes.peerOf(conn)
	if err != nil {
		return
	}
	if _, err := c.processes.findParent(pid); err != nil {
		return
	}
	conn.SetReadDeadline(time.Now().Add(socketTime))
	defer context.AfterFunc(c.ctx, func() { conn.SetReadDeadline(time.Now()) })()
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 0, 4<<10), maxClaudeLine+1)
	for lines.Scan() {
		if f, ok := readClaudeFrame(lines.Bytes()); ok {
			c.handle(&f)
		}
	}
}

// handle takes one frame of the session.
func (c *claude) handle(f *claudeFrame) {
	switch {
	case f.Action == actionStatus, f.Action == actionIdle:
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, id := range append(f.Dropped, f.Of) {
			if answer := c.awaited[id]; answer != nil {
				delete(c.awaited, id)
				select {
				case answer <- *f:
				default: // another frame said so already
				}
			}
		}
	case f.Type == typeUser:
		c.handleAnswer(f)
	}
}

// handleAnswer hands on what the model sends by Claude Code's own tool, SendMessage, if that names one of the
// messages that the session was woken for. If it does not, or the reply fails, the model gets a refusal in the same turn.
func (c *claude) handleAnswer(f *claudeFrame) {
	if id, ok := c.findNamed(f.Answer); ok && c.reply != nil && c.reply(c.ctx, id, f.Answer) == nil {
		return
	}
	c.write(&claudeFrame{
		Type: typeControl, Action: actionStatus, Version: 1, ID: wire.NewMessageID().String(), From: c.from,
		Of: f.ID, Status: statusRefused, Reason: "answers go through acp_reply",
	})
}
