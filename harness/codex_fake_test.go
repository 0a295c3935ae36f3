package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/ownwords"
)

// fakeCodex is an app-server that is not there. It speaks the frames of Codex 0.169.0.
type fakeCodex struct {
	t      *testing.T
	home   string
	socket string

	mu       sync.Mutex // guards what follows
	threads  []codexThread
	policy   string
	reviewer string
	sandbox  string
	version  string
	resumed  func()                // is called before a thread is resumed; nil: nothing is
	terminal map[string]bool       // the terminals that are connected, by their addresses
	shows    map[string]string     // the terminal of a thread
	unseen   error                 // why it is not seen who is connected
	turns    map[string][]fakeTurn // of a thread, the latest first
	called   func(thread string)   // takes the call of a tool of a thread's acpctl
	before   map[string]string     // a text that is sent before the answer to a method
	after    map[string]string     // and one after it
	refuse   map[string]string     // the error that a method is answered with
	silent   map[string]bool       // methods that are not answered
	calls    []codexCall
	stray    []string // what came that is no call
	conns    map[*websocket.Conn]bool
}

// codexCall is a call that came.
type codexCall struct {
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	ID     jsontext.Value `json:"id"`
}

// thread is the thread that a call is about.
func (c *codexCall) thread() string {
	var p struct {
		Thread string `json:"threadId"`
	}
	json.Unmarshal(c.Params, &p)
	return p.Thread
}

// turn is the turn that a call is about.
func (c *codexCall) turn() string {
	var p struct {
		Turn string `json:"turnId"`
	}
	json.Unmarshal(c.Params, &p)
	return p.Turn
}

// fakeTurn is a turn, and the item with which it has begun.
type fakeTurn struct {
	codexTurn
	first codexItem // without a type: there is none
}

const (
	ownThread   = "019a-own"
	ownTerminal = "http://127.0.0.1:4000"
)

func newFakeCodex(t *testing.T) *fakeCodex {
	t.Helper()
	f := &fakeCodex{
		t: t, home: makeSocketDir(t), policy: `"on-request"`, reviewer: "user", sandbox: "workspaceWrite", version: "0.169.0",
		terminal: map[string]bool{ownTerminal: true}, shows: map[string]string{ownThread: ownTerminal}, called: func(string) {},
		threads: []codexThread{{ID: "019a-title", Ephemeral: true, Dir: "/work", Status: codexStatus{"idle"}}, {ID: ownThread, Dir: "/work", Status: codexStatus{"idle"}}},
		before:  make(map[string]string), after: make(map[string]string), refuse: make(map[string]string), silent: make(map[string]bool),
		conns: make(map[*websocket.Conn]bool),
	}
	// The socket is elsewhere, and Codex's home has a link to it.
	f.socket = filepath.Join(f.home, "s")
	link := filepath.Join(f.home, ".codex/app-server-control/app-server-control.sock")
	if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(f.socket, link)); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: f}
	var running sync.WaitGroup
	running.Go(func() { server.Serve(listener) })
	t.Cleanup(func() {
		server.Close()
		f.hangUp()
		running.Wait()
	})
	return f
}

func (f *fakeCodex) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	f.mu.Lock()
	f.conns[conn] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.conns, conn)
	}()
	for {
		_, text, err := conn.Read(context.Background())
		if err != nil {
			return
		}
		var c codexCall
		if json.Unmarshal(text, &c) != nil || c.Method == "" {
			f.mu.Lock()
			f.stray = append(f.stray, string(text))
			f.mu.Unlock()
			continue
		}
		f.mu.Lock()
		f.calls = append(f.calls, c)
		called := f.called
		before, after, silent := f.before[c.Method], f.after[c.Method], f.silent[c.Method]
		answer := `{"id":` + string(c.ID) + `,"result":` + f.answer(&c) + `}`
		if e := f.refuse[c.Method]; e != "" {
			answer = `{"id":` + string(c.ID) + `,"error":` + e + `}`
		}
		f.mu.Unlock()
		if len(c.ID) == 0 {
			continue
		}
		if c.Method == "mcpServer/tool/call" {
			called(c.thread())
		}
		for line := range strings.Lines(before) {
			f.write(conn, line)
		}
		if !silent {
			f.write(conn, answer)
		}
		for line := range strings.Lines(after) {
			f.write(conn, line)
		}
	}
}

func (f *fakeCodex) write(conn *websocket.Conn, text string) {
	conn.Write(context.Background(), websocket.MessageText, []byte(text))
}

// answer is the result of a call. The caller holds mu.
func (f *fakeCodex) answer(c *codexCall) string {
	if c.Method == "thread/resume" && f.resumed != nil {
		f.resumed()
	}
	thread := `{}`
	for _, t := range f.threads {
		if t.ID == c.thread() {
			thread = f.marshal(&t)
		}
	}
	switch c.Method {
	case "initialize":
		return `{"userAgent":"acpd/` + f.version + ` (Linux; x86_64) unknown","codexHome":"/x"}`
	case "thread/loaded/list":
		var ids []string
		for _, t := range f.threads {
			ids = append(ids, `"`+t.ID+`"`)
		}
		return `{"data":[` + strings.Join(ids, ",") + `]}`
	case "thread/read":
		return `{"thread":` + thread + `}`
	case "thread/resume":
		return `{"thread":` + thread + `,"approvalPolicy":` + f.policy + `,"approvalsReviewer":"` + f.reviewer + `","sandbox":{"type":"` + f.sandbox + `","networkAccess":false}}`
	case "mcpServerStatus/list":
		if origin := f.shows[c.thread()]; origin != "" {
			return `{"data":[{"name":"codex_tui","httpOrigin":"` + origin + `"}]}`
		}
		return `{"data":[]}`
	case "thread/turns/list":
		all := []any{}
		for _, t := range f.turns[c.thread()] {
			items := []codexItem{}
			if t.first.Type == itemOfUser && strings.Contains(string(c.Params), `"summary"`) {
				items = append(items, t.first)
			}
			all = append(all, map[string]any{"id": t.ID, "items": items, "startedAt": t.Started, "completedAt": t.Ended})
		}
		return f.marshal(map[string]any{"data": all, "nextCursor": nil})
	case "thread/items/list":
		items := []any{}
		for _, t := range f.turns[c.thread()] {
			if t.ID == c.turn() && t.first.Type != "" {
				items = append(items, map[string]any{"turnId": t.ID, "item": &t.first})
			}
		}
		return f.marshal(map[string]any{"data": items, "nextCursor": nil})
	case "turn/start":
		return `{"turn":{"id":"t1","status":"inProgress","items":[]}}`
	}
	return `{}`
}

func (f *fakeCodex) marshal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		f.t.Error(err)
	}
	return string(text)
}

// tell writes a message to all clients.
func (f *fakeCodex) tell(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn := range f.conns {
		f.write(conn, text)
	}
}

// hangUp ends all connections.
func (f *fakeCodex) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn := range f.conns {
		conn.CloseNow()
	}
}

// change changes what the app-server is like.
func (f *fakeCodex) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// list returns the calls of a method.
func (f *fakeCodex) list(method string) (found []codexCall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c.Method == method {
			found = append(found, c)
		}
	}
	return found
}

// find returns the session, which the test closes at its end.
func (f *fakeCodex) find() (Session, error) {
	f.t.Helper()
	ps := newFamily()
	ps.findTerminal = func(_ int, _ string, port int) (func() bool, error) {
		origin := fmt.Sprint("http://127.0.0.1:", port)
		has := func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.terminal[origin]
		}
		if f.unseen != nil || !has() {
			return nil, cmp.Or(f.unseen, ownwords.New("no terminal"))
		}
		return func() bool { return !has() }, nil
	}
	env := &Environment{Client: "codex-mcp-client", Version: "0.169.0", Dir: "/work", Getenv: func(name string) string {
		return map[string]string{"HOME": f.home}[name]
	}}
	s, err := findCodex(f.t.Context(), env, ps)
	if err == nil {
		f.t.Cleanup(func() { s.Close() })
	}
	return s, err
}

func (f *fakeCodex) mustFind() Session {
	f.t.Helper()
	s, err := f.find()
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// proof is the notification that a user's message is in the model's input.
func proof(thread, id string) string {
	return `{"method":"item/completed","params":{"threadId":"` + thread + `","turnId":"t1","item":{"type":"userMessage","id":"i1","clientId":"` + id + `","content":[]}}}` + "\n"
}
