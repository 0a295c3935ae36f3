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
)

// testMap is an object in JSON.
type testMap = map[string]any

// fakeCodex is an app-server that is not there. It speaks the frames of Codex 0.169.0.
type fakeCodex struct {
	t        *testing.T
	home     string
	socket   string
	listener *net.UnixListener
	server   int // the process that listens; 0: one that has started the session

	mu       sync.Mutex // guards what follows
	threads  []codexThread
	version  string
	methods  string                              // as it lists them
	obliging bool                                // it answers whatever it is asked
	ignored  map[string]bool                     // the fields of turn/start that it does not know
	rewrite  func(method string, result testMap) // changes a result before it is sent; nil: none is changed
	resumed  func()                              // is called before a thread is resumed; nil: nothing is
	fresh    bool                                // no thread can be resumed before it has got an item
	terminal string                              // the address of the terminal of all threads; empty: none is named
	called   func(thread string)                 // takes the call of a tool of a thread's acpctl
	before   map[string]string                   // a text that is sent before the answer to a method
	after    map[string]string                   // and one after it
	refuse   map[string]string                   // the error that a method is answered with
	silent   map[string]bool                     // methods that are not answered
	faulty   testMap                             // a thread, and the method that is refused of it, or not answered if it is a tool call
	hangsUp  string                              // a method that ends its connection; empty: none does
	calls    []codexCall
	stray    []string // what came that is no call
	conns    map[*websocket.Conn]bool
	said     []testMap // the items of the only turn that it knows, t1, of which the first summarise it
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

const ownThread = "019a-own"

// fakeThread returns a thread of the folder in which the session runs.
func fakeThread(id string) codexThread {
	return codexThread{ID: id, Dir: "/work", Status: codexStatus{Type: statusIdle}, Ephemeral: jsontext.Value("false"), Parent: jsontext.Value("null")}
}

func newFakeCodex(t *testing.T) *fakeCodex {
	t.Helper()
	f := &fakeCodex{
		t: t, home: makeSocketDir(t), version: "0.169.0", methods: "`initialize`, `" + strings.Join(codexMethods, "`, `") + "`", called: func(string) {},
		threads: []codexThread{fakeThread("019a-title"), fakeThread(ownThread)}, ignored: make(map[string]bool),
		before: make(map[string]string), after: make(map[string]string), refuse: make(map[string]string), silent: make(map[string]bool),
		conns: make(map[*websocket.Conn]bool),
	}
	f.threads[0].Ephemeral = jsontext.Value("true")
	// The socket is elsewhere, and Codex's home has a link to it.
	f.socket = filepath.Join(f.home, "s")
	link := filepath.Join(f.home, ".codex/app-server-control/app-server-control.sock")
	if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(f.socket, link)); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: f.socket, Net: "unix"}); err != nil {
		t.Fatal(err)
	}
	f.listener.SetUnlinkOnClose(false)
	server := &http.Server{Handler: f}
	var running sync.WaitGroup
	running.Go(func() { server.Serve(f.listener) })
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
		called, hangsUp := f.called, f.hangsUp == c.Method
		before, after, silent := f.before[c.Method], f.after[c.Method], f.silent[c.Method]
		result, refusal := f.answer(&c)
		answer := `{"id":` + string(c.ID) + `,"result":` + result + `}`
		if e := cmp.Or(f.refuse[c.Method], refusal); e != "" {
			answer = `{"id":` + string(c.ID) + `,"error":` + e + `}`
		}
		if f.faulty[c.thread()] == c.Method {
			answer, silent = `{"id":`+string(c.ID)+`,"error":`+refuseWith("broken")+`}`, c.Method == "mcpServer/tool/call"
		}
		f.mu.Unlock()
		if len(c.ID) == 0 {
			continue
		}
		if c.Method == "mcpServer/tool/call" {
			called(c.thread())
		}
		if hangsUp {
			return
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

// refuseWith returns the error of a call that the app-server refuses.
func refuseWith(text string) string {
	return fmt.Sprintf(`{"code":%d,"message":%q}`, codexRefused, text)
}

// answer is the result of a call, or its error. The caller holds mu.
func (f *fakeCodex) answer(c *codexCall) (result, refusal string) {
	if c.Method == "thread/resume" && f.resumed != nil {
		f.resumed()
	}
	thread := testMap{}
	for _, t := range f.threads {
		if t.ID == c.thread() {
			json.Unmarshal([]byte(f.marshal(&t)), &thread)
		}
	}
	answer := testMap{}
	if f.obliging && (c.Method == "acpd/probe" || c.thread() == noThread) {
		return "{}", ""
	}
	switch c.Method {
	case "acpd/probe":
		return "", refuseWith("Invalid request: unknown variant `acpd/probe`, expected one of " + f.methods)
	case "initialize":
		answer = testMap{"userAgent": "acpd/" + f.version + " (Linux; x86_64) unknown", "codexHome": "/x"}
	case "thread/loaded/list":
		ids := []any{}
		for _, t := range f.threads {
			ids = append(ids, t.ID)
		}
		answer = testMap{"data": ids}
	case "thread/read":
		answer = testMap{"thread": thread}
	case "thread/inject_items":
		f.fresh = false
	case "thread/resume":
		if f.fresh {
			return "", refuseWith("no rollout found for thread id " + c.thread())
		}
		answer = testMap{"thread": thread, "approvalPolicy": "on-request", "approvalsReviewer": "user", "sandbox": testMap{"type": "workspaceWrite", "networkAccess": false}}
	case "thread/turns/list":
		var p struct {
			View  string `json:"itemsView"`
			Limit int    `json:"limit"`
		}
		json.Unmarshal(c.Params, &p)
		items := f.said
		if p.View = cmp.Or(p.View, "summary"); p.View == "summary" {
			items = items[:min(1, len(items))]
		}
		answer = testMap{"data": []any{testMap{"id": "t1", "status": "inProgress", "itemsView": p.View, "items": items}}}
		if p.Limit != 1 {
			return "", refuseWith("too much")
		}
	case "mcpServerStatus/list":
		data := []any{testMap{"name": "acp", "httpOrigin": nil}}
		if f.terminal != "" {
			data = append(data, testMap{"name": codexTerminal, "httpOrigin": f.terminal})
		}
		answer = testMap{"data": data}
	case "turn/start":
		if c.thread() == noThread {
			for _, field := range codexFields {
				if strings.Contains(string(c.Params), `"`+field+`":5`) && !f.ignored[field] {
					return "", refuseWith("Invalid request: invalid type: integer `5`, expected a string")
				}
			}
			return "", refuseWith("thread not found: " + noThread)
		}
		var p struct {
			ClientID string `json:"clientUserMessageId"`
		}
		json.Unmarshal(c.Params, &p)
		f.said = append(f.said, testMap{"type": "userMessage", "clientId": p.ClientID, "content": []any{}})
		answer = testMap{"turn": testMap{"id": "t1", "status": "inProgress", "items": []any{}}}
	}
	if f.rewrite != nil {
		f.rewrite(c.Method, answer)
	}
	return f.marshal(answer), ""
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

// list returns the calls of a method, without those of a probe.
func (f *fakeCodex) list(method string) (found []codexCall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c.Method == method && c.thread() != noThread {
			found = append(found, c)
		}
	}
	return found
}

// find returns the session, which the test closes at its end.
func (f *fakeCodex) find() (Session, error) {
	f.t.Helper()
	ps := newFamily()
	if f.server != 0 {
		ps.peerOf = func(*net.UnixConn) (int, error) { return f.server, nil }
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
