//go:build agents

package agents

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/harness"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/wire"
)

// childMode is the argument by which this binary is a child of an agent program: an MCP server
// that has one tool, and wakes the session when a test asks it to.
const childMode = "mcp-child"

// inboxText is what acp_inbox of the child returns.
const inboxText = "what desk wrote"

// Child is what a test can ask of a child.
type Child struct {
	mu      sync.Mutex
	session harness.Session
	found   string   // why there is none
	replies []string // by the program's own means
	calls   int
	present SeenPresence
	given   atomic.Bool   // up by those who have sent the messages of posts
	asked   atomic.Int64  // how often the session has asked whether they have
	ready   chan struct{} // closed when the session was sought
}

// Found is what the child found.
type Found struct {
	Name, Version string // empty: no session
	Err           string
	Calls         int
	Replies       []string
}

// Look returns what the child found, as soon as it has.
func (c *Child) Look(_ struct{}, found *Found) error {
	<-c.ready
	c.mu.Lock()
	defer c.mu.Unlock()
	*found = Found{Err: c.found, Calls: c.calls, Replies: c.replies}
	if c.session != nil {
		found.Name, found.Version = c.session.Harness()
	}
	return nil
}

// SeenPresence is what a session that is a harness.Watcher said last of itself, and how often it has asked
// whether somebody waits for what its turn does.
type SeenPresence struct {
	Seen, Unwakeable, Asks string
	Asked                  int64
}

// Presence returns it.
func (c *Child) Presence(_ struct{}, p *SeenPresence) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	*p = c.present
	p.Asked = c.asked.Load()
	return nil
}

func (c *Child) notePresence(p harness.Presence) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.present = SeenPresence{Seen: "yes", Asks: p.Asks}
	if p.Unwakeable != nil {
		c.present.Unwakeable = p.Unwakeable.Error()
	}
}

// GiveUp says whether nobody waits any more for what the turns of posts do.
func (c *Child) GiveUp(given bool, _ *struct{}) error {
	c.given.Store(given)
	return nil
}

// PostParams is a post, and how long it may take.
type PostParams struct {
	harness.Post
	Limit time.Duration
}

// PostResult is what became of it.
type PostResult struct {
	Proven bool
	Err    string // which of the package's errors it is; empty: none
	Text   string
	Took   time.Duration
}

// Post posts.
func (c *Child) Post(p PostParams, r *PostResult) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.Limit)
	defer cancel()
	<-c.ready
	if c.session == nil {
		return errors.New("no session: " + c.found)
	}
	began := time.Now()
	p.Post.Abandoned = func() bool { c.asked.Add(1); return c.given.Load() }
	posted, err := c.session.Post(ctx, p.Post)
	r.Proven, r.Took = posted.Proven, time.Since(began)
	if err == nil {
		return nil
	}
	r.Err, r.Text = "other", err.Error()
	for name, e := range postErrors {
		if errors.Is(err, e) {
			r.Err = name
		}
	}
	return nil
}

var postErrors = map[string]error{
	"unattended": harness.ErrUnattended, "held": harness.ErrHeld, "refused": harness.ErrRefused, "unsupported": harness.ErrUnsupported,
	"no thread": harness.ErrNoThread, "no turn": harness.ErrNoTurn, "gone": harness.ErrGone, "busy": harness.ErrBusy,
}

// runChild serves MCP on standard input and output, and tests on a socket in a folder.
func runChild(dir string) (code int) {
	c := &Child{ready: make(chan struct{})}
	server := rpc.NewServer()
	if err := server.Register(c); err != nil {
		panic(err)
	}
	path := filepath.Join(dir, fmt.Sprint(os.Getpid()))
	listener, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	go server.Accept(listener)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		c.serve(in.Bytes())
	}
	listener.Close()
	if c.session != nil {
		c.session.Close()
	}
	return 0
}

func (c *Child) serve(line []byte) {
	var m struct {
		ID     jsontext.Value `json:"id"`
		Method string         `json:"method"`
		Params struct {
			Protocol string `json:"protocolVersion"`
			Client   struct {
				Name    string `json:"name"`
				Version string `json:"version"`
			} `json:"clientInfo"`
			Meta map[string]any `json:"_meta"`
		} `json:"params"`
	}
	if json.Unmarshal(line, &m) != nil || len(m.ID) == 0 {
		return
	}
	var result any
	switch m.Method {
	case "initialize":
		result = object{"protocolVersion": m.Params.Protocol, "capabilities": object{"tools": object{}}, "serverInfo": object{"name": "acp", "version": "1"}}
		go c.find(harness.Environment{Client: m.Params.Client.Name, Version: m.Params.Client.Version, Reply: c.takeReply})
	case "tools/list":
		result = object{"tools": []any{object{
			"name": "acp_inbox", "description": "What others wrote.", "inputSchema": object{"type": "object", "properties": object{}},
			"annotations": object{"readOnlyHint": true}, "_meta": object{"anthropic/alwaysLoad": true},
		}}}
	case "tools/call":
		<-c.ready
		c.mu.Lock()
		c.calls++
		c.mu.Unlock()
		if c.session != nil {
			c.session.NoteCall(m.Params.Meta)
		}
		result = object{"content": []any{object{"type": "text", "text": inboxText}}}
	case "ping":
		result = object{}
	}
	answer := object{"jsonrpc": "2.0", "id": m.ID}
	if answer["result"] = result; result == nil {
		delete(answer, "result")
		answer["error"] = object{"code": -32601, "message": "no such method"}
	}
	text, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", text)
}

func (c *Child) find(env harness.Environment) {
	s, err := harness.FindSession(context.Background(), env)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = s
	if err != nil {
		c.found = err.Error()
	}
	if w, ok := s.(harness.Watcher); ok {
		go w.Watch(context.Background(), c.notePresence)
	}
	close(c.ready)
}

func (c *Child) takeReply(_ context.Context, to wire.MessageID, text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replies = append(c.replies, to.String()+": "+text)
	return nil
}

// child is the test's end of a Child.
type child struct {
	t   *testing.T
	pid string
	rpc *rpc.Client
}

// childCommand is the command line of a child that awaitChild finds in dir.
func childCommand(t *testing.T, dir string) []string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, childMode, dir}
}

// awaitChild waits for the child in dir.
func awaitChild(t *testing.T, dir string) *child {
	t.Helper()
	return awaitOtherChild(t, dir)
}

// awaitOtherChild waits for a child in dir that is none of those.
func awaitOtherChild(t *testing.T, dir string, known ...*child) *child {
	t.Helper()
	c := &child{t: t}
	await.Until(t, "the program starts its MCP server", func() bool {
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			if slices.ContainsFunc(known, func(k *child) bool { return k.pid == f.Name() }) {
				continue
			}
			if conn, err := rpc.Dial("unix", filepath.Join(dir, f.Name())); err == nil { // else it does not listen yet, or was killed
				c.pid, c.rpc = f.Name(), conn
				return true
			}
		}
		return false
	})
	t.Cleanup(func() { c.rpc.Close() })
	return c
}

// awaitPresence waits until the session cannot be woken, with that text, and asks its user; "" stands for
// one that can be woken, and for one that does not ask.
func (c *child) awaitPresence(unwakeable, asks string) {
	c.t.Helper()
	var p SeenPresence
	defer func() { c.t.Logf("child %s: %+v", c.pid, p) }()
	await.Until(c.t, fmt.Sprintf("the session is unwakeable for %q, asking %q", unwakeable, asks), func() bool {
		p = SeenPresence{} // gob leaves out what is empty
		err := c.rpc.Call("Child.Presence", struct{}{}, &p)
		return err == nil && p.Seen != "" && (p.Unwakeable == "") == (unwakeable == "") && strings.Contains(p.Unwakeable, unwakeable) && p.Asks == asks
	})
}

// awaitLook waits until the session has decided anew whether to end the turn in which it asks its user.
func (c *child) awaitLook() {
	c.t.Helper()
	asked := int64(-1)
	await.Until(c.t, "the session looks at its turn", func() bool {
		var p SeenPresence
		err := c.rpc.Call("Child.Presence", struct{}{}, &p)
		if err == nil && asked < 0 {
			asked = p.Asked
		}
		return err == nil && p.Asked >= asked+2 // so the first of these looks is over
	})
}

// giveUp says whether nobody waits any more for what the turns of posts do.
func (c *child) giveUp(given bool) {
	c.t.Helper()
	if err := c.rpc.Call("Child.GiveUp", given, new(struct{})); err != nil {
		c.t.Fatal(err)
	}
}

// look returns what the child found.
func (c *child) look() (f Found) {
	c.t.Helper()
	if err := c.rpc.Call("Child.Look", struct{}{}, &f); err != nil {
		c.t.Fatal(err)
	}
	return f
}

// mustFind expects a session of that program.
func (c *child) mustFind(name, version string) {
	c.t.Helper()
	if f := c.look(); f.Name != name || f.Version != version {
		c.t.Fatalf("found %+v, want %s %s", f, name, version)
	}
}

// newPost is a post about a message that does not exist.
func newPost() PostParams {
	id := wire.NewMessageID()
	return PostParams{harness.Post{Message: id, Pointer: "1 message from desk waits, id " + id.String() + ". Call acp_inbox."}, await.Patience}
}

// post posts, and again while the program takes longer to answer than acpctl mcp waits, as it may where others compute.
func (c *child) post(p PostParams) (r PostResult) {
	c.t.Helper()
	r = await.Receive(c.t, "the program answers a post in time", goPost(c, p))
	c.t.Logf("post: %s in %s %s", strings.TrimSpace(r.Err+" "), r.Took.Round(time.Millisecond), r.Text)
	return r
}

// goPost is post, and does not wait.
func goPost(c *child, p PostParams) <-chan PostResult {
	posted := make(chan PostResult, 1)
	go func() {
		for late := true; late; {
			var r PostResult
			if err := c.rpc.Call("Child.Post", p, &r); err != nil {
				r.Err, r.Text = "other", err.Error()
			}
			if late = r.Err == "gone" && strings.Contains(r.Text, context.DeadlineExceeded.Error()); !late {
				posted <- r
			}
		}
	}()
	return posted
}

// checkBusy checks that the session of a child is woken when its turn has ended, and not before. say has
// its user say something.
func (p *person) checkBusy(c *child, say func(text string)) {
	p.t.Helper()
	end := make(chan struct{})
	p.model.on("work hard", step{text: "worked", pause: end})
	say("work hard")
	p.model.awaitRequest("user", "work hard")
	post := newPost()
	posted := goPost(c, post)
	select {
	case r := <-posted:
		p.t.Fatalf("posted into a turn: %+v", r)
	case <-time.After(2 * time.Second):
	}
	if p.model.find("user", post.Pointer) != nil {
		p.t.Error("the model is given the pointer in the middle of a turn")
	}
	close(end)
	if r := await.Receive(p.t, "the post", posted); r.Err != "" {
		p.t.Errorf("post: %+v", r)
	}
	p.model.awaitRequest("user", post.Pointer)
}

// postUntil posts messages, one after the other, until one has a result for whose proof acpctl mcp waits a short
// time: the program may take longer where others compute, and the post then counts as taken. It returns the last one.
func (c *child) postUntil(result string, p PostParams) {
	c.t.Helper()
	await.Until(c.t, "a post is "+result, func() bool {
		another := newPost()
		another.Unattended = p.Unattended
		p = another
		r := c.post(p)
		if r.Err != "" && r.Err != result {
			c.t.Fatalf("post: %+v, want %q", r, result)
		}
		return r.Err == result
	})
}
