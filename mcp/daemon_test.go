package mcp

import (
	"cmp"
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/harness"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// desk is the peer of these tests.
var desk = identity.ID{0xde, 0x5c}

// fakeDaemon answers each method as a test says, and has one peer, desk.
type fakeDaemon struct {
	t    *testing.T
	path string
	l    net.Listener

	running  sync.WaitGroup
	mu       sync.Mutex
	methods  map[string]func(context.Context, *jsonrpc.Request) (any, error)
	conns    []*jsonrpc.Conn
	attached chan attachedAgent
	names    map[string]bool // that other agents have
}

type attachedAgent struct {
	params client.AttachParams
	conn   *jsonrpc.Conn
}

func newFakeDaemon(t *testing.T) *fakeDaemon {
	dir, err := os.MkdirTemp("", "acp") // a socket's path cannot be long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &fakeDaemon{
		t: t, path: filepath.Join(dir, client.SocketName), methods: make(map[string]func(context.Context, *jsonrpc.Request) (any, error)),
		attached: make(chan attachedAgent, 16), names: make(map[string]bool),
	}
	d.answer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: desk, Name: "desk", State: client.PeerConnected, Addrs: []string{}}}})
	d.answer(client.MethodWhoami, &client.Whoami{ID: identity.ID{7}, Name: "laptop"})
	d.answer(client.MethodSession, &client.SessionState{})
	d.answer(client.MethodInbox, &client.Inbox{})
	d.start()
	t.Cleanup(d.stop)
	return d
}

func (d *fakeDaemon) start() {
	l, err := net.Listen("unix", d.path)
	if err != nil {
		d.t.Fatal(err)
	}
	d.l = l
	d.running.Go(func() {
		for {
			socket, err := l.Accept()
			if err != nil {
				return
			}
			c := jsonrpc.NewConn(socket, jsonrpc.Options{Handler: d.handle})
			d.mu.Lock()
			d.conns = append(d.conns, c)
			d.mu.Unlock()
			d.running.Go(func() { c.Run(context.Background()) })
		}
	})
}

// stop is a daemon's end: the socket goes, and all connections.
func (d *fakeDaemon) stop() {
	d.l.Close()
	d.mu.Lock()
	for _, c := range d.conns {
		c.Close()
	}
	d.conns = nil
	d.mu.Unlock()
	d.running.Wait()
}

func (d *fakeDaemon) handle(ctx context.Context, c *jsonrpc.Conn, r *jsonrpc.Request) {
	d.mu.Lock()
	do := d.methods[r.Method]
	d.mu.Unlock()
	var result any
	var err error
	switch {
	case r.Method == client.MethodAttach:
		result, err = d.attach(c, r)
	case do != nil:
		result, err = do(ctx, r)
	default:
		err = jsonrpc.NewMethodNotFound(r.Method)
	}
	if err != nil {
		r.RespondError(err)
		return
	}
	r.Respond(result)
}

func (d *fakeDaemon) attach(c *jsonrpc.Conn, r *jsonrpc.Request) (any, error) {
	var p client.AttachParams
	if err := r.ReadParams(&p); err != nil {
		return nil, err
	}
	d.mu.Lock()
	taken := d.names[p.Name]
	d.mu.Unlock()
	if taken {
		return nil, kinds.Errorf(kinds.Invalid, "attach: name: an agent %q is attached already: choose another name", p.Name).WithReason(kinds.ReasonNameTaken)
	}
	d.attached <- attachedAgent{p, c}
	return &client.Attached{Key: cmp.Or(p.Key, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")}, nil
}

// answer lets a method answer with a result or an error.
func (d *fakeDaemon) answer(method string, result any) {
	d.handleMethod(method, func(context.Context, *jsonrpc.Request) (any, error) {
		if err, ok := result.(error); ok {
			return nil, err
		}
		return result, nil
	})
}

// handleMethod lets a function answer a method.
func (d *fakeDaemon) handleMethod(method string, do func(context.Context, *jsonrpc.Request) (any, error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.methods[method] = do
}

// serve lets a function answer a method, by its params.
func serve[P any](d *fakeDaemon, method string, answer func(P) (any, error)) {
	d.handleMethod(method, func(_ context.Context, r *jsonrpc.Request) (any, error) {
		var p P
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		return answer(p)
	})
}

// record is serve, and returns the params of each call.
func record[P any](d *fakeDaemon, method string, answer func(P) (any, error)) <-chan P {
	calls := make(chan P, 99)
	serve(d, method, func(p P) (any, error) { calls <- p; return answer(p) })
	return calls
}

// recordNotices lets peers get notices, and returns these.
func (d *fakeDaemon) recordNotices() <-chan client.NotifyParams {
	return record(d, client.MethodNotify, func(n client.NotifyParams) (any, error) {
		return &client.Receipt{ID: n.ID, State: client.Handed}, nil
	})
}

// answerQueries answers queries with the text that answer returns for the question.
func (d *fakeDaemon) answerQueries(answer func(context.Context, *client.QueryParams, string) (string, error)) {
	d.handleMethod(client.MethodQuery, func(ctx context.Context, r *jsonrpc.Request) (any, error) {
		var p client.QueryParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		q, err := kinds.ParsePayload[kinds.Query](p.Payload)
		if err != nil {
			return nil, err
		}
		text, err := answer(ctx, &p, q.Question)
		if err != nil {
			return nil, err
		}
		return &client.Answer{ID: p.ID, From: desk, FromAgent: "reviewer", Kind: kinds.KindResponse, Payload: kinds.EncodePayload(&kinds.Response{Summary: text})}, nil
	})
}

// program is an agent program: it has the server as a child.
type program struct {
	*sdk.ClientSession
	t      *testing.T
	server *Server
	daemon *fakeDaemon
	said   chan *sdk.ProgressNotificationParams
	close  func() // ends the session and waits until the server has ended
}

// startProgram serves a program, whose name is claude-code, until the test ends.
func startProgram(t *testing.T, d *fakeDaemon, s *Server) *program {
	t.Helper()
	s.Daemon = cmp.Or(s.Daemon, &client.Client{Socket: d.path, Patience: 5 * time.Second})
	if s.timing == (timing{}) {
		s.timing = usualTiming
		s.timing.wait, s.timing.progress = 20*time.Second, 10*time.Millisecond
	}
	if s.Log == nil {
		s.Log = t.Logf
	}
	here, there := sdk.NewInMemoryTransports()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(context.Background(), here) }()
	p := &program{t: t, server: s, daemon: d, said: make(chan *sdk.ProgressNotificationParams, 1024)}
	c := sdk.NewClient(&sdk.Implementation{Name: "claude-code", Version: "2.1.330"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { p.said <- r.Params },
	})
	var err error
	if p.ClientSession, err = c.Connect(context.Background(), there, nil); err != nil {
		t.Fatal(err)
	}
	p.close = sync.OnceFunc(func() {
		p.ClientSession.Close()
		if err := await.Receive(t, "the server has ended", ended); err != nil {
			t.Errorf("serve: %v", err)
		}
		s.Daemon.Close()
	})
	t.Cleanup(p.close)
	return p
}

// attachedProgram is startProgram of a session that is attached. It returns the daemon's
// connection to it.
func attachedProgram(t *testing.T, d *fakeDaemon, s *Server) (*program, attachedAgent) {
	t.Helper()
	s.Attach = cmp.Or(s.Attach, &client.AttachParams{})
	p := startProgram(t, d, s)
	agent := await.Receive(t, "the session is attached", d.attached)
	await.Until(t, "the session knows that it is attached", func() bool { return s.agent.currentName() != "" })
	return p, agent
}

// newProgram is startProgram, with a daemon of its own.
func newProgram(t *testing.T) (*fakeDaemon, *program) {
	t.Helper()
	d := newFakeDaemon(t)
	return d, startProgram(t, d, &Server{})
}

// newSession is attachedProgram, with a daemon of its own.
func newSession(t *testing.T) (*fakeDaemon, *program, attachedAgent) {
	t.Helper()
	d := newFakeDaemon(t)
	p, agent := attachedProgram(t, d, &Server{})
	return d, p, agent
}

// newWokenSession is newSession of a session that can be woken.
func newWokenSession(t *testing.T) (*fakeDaemon, *program, attachedAgent, *fakeSession) {
	t.Helper()
	d, f := newFakeDaemon(t), newFakeSession()
	p, agent := attachedProgram(t, d, &Server{FindSession: func(context.Context, string, string) (harness.Session, error) { return f, nil }})
	return d, p, agent, f
}

// shownResult is the result of a tool, as a program reads it.
type shownResult struct {
	Text    string         `json:"text"`
	State   string         `json:"state"`
	ID      wire.MessageID `json:"id"`
	From    string         `json:"from"`
	Next    int            `json:"next"`
	Detail  jsontext.Value `json:"detail"`
	Error   *failure       `json:"error"`
	Unread  *int           `json:"unread"`
	Notices []string       `json:"notices"`

	said string // the text for programs that show that
	meta sdk.Meta
	size int // of the structured result, in bytes
}

// call calls a tool.
func (p *program) call(name string, arguments any) *shownResult {
	p.t.Helper()
	r, err := p.callIn(await.NewContext(p.t), &sdk.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		p.t.Fatalf("%s: %v", name, err)
	}
	return r
}

func (p *program) callIn(ctx context.Context, params *sdk.CallToolParams) (*shownResult, error) {
	p.t.Helper()
	r, err := p.CallTool(ctx, params)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(r.StructuredContent)
	if err != nil {
		return nil, err
	}
	out := &shownResult{meta: r.Meta, size: len(text)}
	if err := json.Unmarshal(text, out); err != nil {
		return nil, err
	}
	out.said = r.Content[0].(*sdk.TextContent).Text
	if r.IsError != (out.Error != nil) {
		p.t.Errorf("%s: isError is %t: %s", params.Name, r.IsError, text)
	}
	return out, nil
}

// must calls a tool, which must end in that state.
func (p *program) must(state, name string, arguments any) *shownResult {
	p.t.Helper()
	r := p.call(name, arguments)
	if r.State != state {
		p.t.Fatalf("%s: state %q, want %q: %s", name, r.State, state, r.said)
	}
	return r
}

// fails calls a tool, which must fail with that code.
func (p *program) fails(code kinds.Code, name string, arguments any) *shownResult {
	p.t.Helper()
	r := p.call(name, arguments)
	if r.Error == nil || r.Error.Code != code || r.Error.Remedy == "" || r.said == "" {
		p.t.Fatalf("%s: got %q %+v, want %s", name, r.said, r.Error, code)
	}
	return r
}

// args are arguments of a tool.
type args = map[string]any
