package harness

import (
	"bufio"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
)

// fakeClaude is the inbox socket of a session that is not there.
type fakeClaude struct {
	t      *testing.T
	dir    string
	socket string
	other  string // the same socket, under another process's name

	mu     sync.Mutex
	frames []claudeFrame // what came, without type auth
	tokens []string
	mode   string                      // what notify_when_idle is answered with; empty: nothing
	answer func(f *claudeFrame) string // a line that a user frame is answered with; nil: silence
}

func newFakeClaude(t *testing.T) *fakeClaude {
	t.Helper()
	f := &fakeClaude{t: t, dir: makeSocketDir(t), mode: modePrompting}
	f.socket = filepath.Join(f.dir, "200.sock")
	listener, err := net.Listen("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { f.serve(conn) })
		}
	})
	f.other = filepath.Join(f.dir, "201.sock")
	if err := os.Symlink(f.socket, f.other); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		listener.Close()
		running.Wait()
	})
	return f
}

func (f *fakeClaude) serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 2<<20)
	for lines.Scan() {
		var frame claudeFrame
		if err := json.Unmarshal(lines.Bytes(), &frame); err != nil {
			f.t.Errorf("the session gets no frame: %v: %.200q", err, lines.Text())
		}
		f.take(&frame)
	}
}

func (f *fakeClaude) take(frame *claudeFrame) {
	f.mu.Lock()
	if frame.Type == typeAuth {
		f.tokens = append(f.tokens, frame.Token)
		f.mu.Unlock()
		return
	}
	f.frames = append(f.frames, *frame)
	mode, answer := f.mode, f.answer
	f.mu.Unlock()
	switch {
	case frame.Action == actionTellIdle && mode != "":
		f.send(frame.From, `{"type":"control","action":"peer_idle_notice","orig_msg_id":"`+frame.ID+`","state":"idle","finished_at":1700000000000,"from_mode":"`+mode+`","msgV":1,"msg_id":"n1"}`+"\n")
	case frame.Type == typeUser && answer != nil:
		f.send(frame.From, answer(frame))
	}
}

// send writes to the socket that the session answers to.
func (f *fakeClaude) send(to, text string) {
	conn, err := net.Dial("unix", strings.TrimPrefix(to, "uds:"))
	if err != nil {
		return // the session was closed meanwhile
	}
	defer conn.Close()
	conn.Write([]byte(text))
}

// list returns the frames of a type or action that came.
func (f *fakeClaude) list(want string) (found []claudeFrame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, frame := range f.frames {
		if frame.Type == want || string(frame.Action) == want {
			found = append(found, frame)
		}
	}
	return found
}

// linkTo returns the path of the socket by way of a folder of that name.
func (f *fakeClaude) linkTo(name string) string {
	path := filepath.Join(f.dir, name)
	if err := os.Symlink(f.dir, path); err != nil && !errors.Is(err, os.ErrExist) {
		f.t.Fatal(err)
	}
	return filepath.Join(path, filepath.Base(f.socket))
}

func (f *fakeClaude) setMode(mode string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode = mode
}

func (f *fakeClaude) setAnswer(answer func(*claudeFrame) string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// environment is that of a child of the session.
func (f *fakeClaude) environment() *Environment {
	f.writeSession("200", `"peerProtocol":1,"peerFeatures":["notify_idle","more"],"messagingSocketPath":"`+f.socket+`"`)
	vars := map[string]string{"HOME": f.dir, "CLAUDE_CODE_MESSAGING_SOCKET": f.socket, "CLAUDE_CODE_MESSAGING_TOKEN": "s3cret"}
	return &Environment{Getenv: func(name string) string { return vars[name] }, Client: "claude-code", Version: "2.1.330"}
}

// writeSession writes what Claude Code says of the session of a process.
func (f *fakeClaude) writeSession(pid, fields string) {
	f.t.Helper()
	dir := filepath.Join(f.dir, ".claude", "sessions")
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, pid+".json"), []byte(`{"pid":200,"status":"idle",`+fields+`}`), 0o600)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// find returns the session, which the test closes at its end.
func (f *fakeClaude) find(env *Environment, ps *processes) Session {
	f.t.Helper()
	s, err := findClaude(f.t.Context(), env, ps)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { s.Close() })
	return s
}

// statusLine is a receipt, as Claude Code 2.1.330 writes it.
func statusLine(of, more string) string {
	return `{"type":"control","action":"peer_message_status",` + more + `,"from":"uds:/x/200.sock","orig_msg_id":"` + of + `","msgV":1,"msg_id":"r1"}` + "\n"
}
