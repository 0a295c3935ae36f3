package openintent

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

type obj = map[string]any

const longOptions = 4 << 10 // bytes of a channel's options in tests

// host is a real engine on a real store.
type host struct {
	t    testing.TB
	path string
	cfg  Config
	db   *store.DB
	e    *Engine
	h    http.Handler

	forward forwarder // to other hosts; nil: there are none
}

const (
	hostID = "0123456789"
	idRest = "abcdefabcdefabcdefabcdefabcdefabcdefabcdefabcdefabcdef" // of a daemon's id
)

// toOthers opens the daemon's open intents to all others.
func toOthers(c *Config) { c.OpenTo = func(string) bool { return true } }

func start(t testing.TB, change ...func(*Config)) *host {
	t.Helper()
	h := &host{t: t, path: filepath.Join(t.TempDir(), "state.db"), cfg: Config{
		Self: hostID + idRest, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}}
	for _, f := range change {
		f(&h.cfg)
	}
	h.open()
	t.Cleanup(func() { h.db.Close() })
	return h
}

func (h *host) open() {
	h.t.Helper()
	var err error
	if h.db, err = store.OpenDB(context.Background(), h.path); err != nil {
		h.t.Fatal(err)
	}
	h.cfg.Store = h.db
	if h.e, err = NewEngine(context.Background(), h.cfg); err != nil {
		h.t.Fatal(err)
	}
	h.h = h.handler(front.local)
}

// handler serves the engine to those whom identify knows.
func (h *host) handler(identify identifier) http.Handler {
	return front.handler(h.e, h.forward, identify)
}

// restart closes the store and serves it anew.
func (h *host) restart() {
	h.t.Helper()
	if err := h.db.Close(); err != nil {
		h.t.Fatal(err)
	}
	h.open()
}

// run runs the engine's timers until the test ends.
func (h *host) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.e.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// client is an agent.
type client struct {
	*host
	handler http.Handler
	agent   string
	header  http.Header
}

func (h *host) as(agent string) *client {
	return &client{host: h, handler: h.h, agent: agent, header: http.Header{}}
}

// from is an agent whose home is another daemon.
func (h *host) from(home, agent string) *client {
	return &client{host: h, agent: agent, header: http.Header{}, handler: h.handler(func(*http.Request) (Caller, error) {
		return Caller{Agent: agent, Home: home}, nil
	})}
}

func (c *client) with(name, value string) *client {
	d := *c
	d.header = c.header.Clone()
	d.header.Set(name, value)
	return &d
}

// answer is what a request got.
type answer struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	raw    []byte
	body   any
}

func (c *client) do(method, path string, body any) *answer {
	c.t.Helper()
	return c.doContext(context.Background(), method, path, body)
}

func (c *client) doContext(ctx context.Context, method, path string, body any) *answer {
	c.t.Helper()
	var text []byte
	if b, ok := body.(obj); ok && method == "POST" && b["payload"] == nil && slices.Contains([]string{"ask", "messages", "reply"}, path[strings.LastIndexByte(path, '/')+1:]) {
		b = maps.Clone(b) // most tests do not mind what is said
		b["payload"] = obj{}
		body = b
	}
	switch b := body.(type) {
	case nil:
	case string:
		text = []byte(b)
	default:
		var err error
		if text, err = json.Marshal(b, json.Deterministic(true)); err != nil {
			c.t.Fatal(err)
		}
	}
	if path != "/openapi.json" && !strings.HasPrefix(path, "/.") && !strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/api/") {
		path = "/api/v1" + path
	}
	r := httptest.NewRequestWithContext(ctx, method, path, bytes.NewReader(text))
	r.Header = c.header.Clone()
	speak(r, c.agent)
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	a := &answer{t: c.t, what: method + " " + path, status: w.Code, header: w.Header(), raw: w.Body.Bytes()}
	if len(a.raw) > 0 && strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(a.raw, &a.body); err != nil {
			c.t.Fatalf("%s: %v in %s", a.what, err, a.raw)
		}
	}
	return a
}

// speak says who makes a request; without a name it is the operator.
func speak(r *http.Request, agent string) {
	if agent == "" {
		r.Header.Set(headerOperator, "true")
		return
	}
	r.Header.Set(headerAgent, agent)
}

func (c *client) get(path string) *answer {
	c.t.Helper()
	return c.do("GET", path, nil)
}
func (c *client) post(path string, body any) *answer {
	c.t.Helper()
	return c.do("POST", path, body)
}
func (c *client) patch(path string, body any) *answer {
	c.t.Helper()
	return c.do("PATCH", path, body)
}

// ok fails the test unless the answer has that status.
func (a *answer) ok(status int) *answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: %d %s, want %d", a.what, a.status, a.raw, status)
	}
	return a
}

// refused fails the test unless the answer is an error with that status and code.
func (a *answer) refused(status int, code string) *answer {
	a.t.Helper()
	a.ok(status)
	b, _ := a.body.(obj)
	if b["error"] != code || b["message"] == nil || b["detail"] == nil {
		a.t.Fatalf("%s: %s, want the error %s", a.what, a.raw, code)
	}
	if status == http.StatusConflict && bytes.Contains(bytes.ToLower(a.raw), []byte("lease")) {
		a.t.Fatalf("%s: the SDK would take %s for a conflict about leases", a.what, a.raw)
	}
	return a
}

func (a *answer) at(name string) any {
	a.t.Helper()
	b, ok := a.body.(obj)
	if !ok {
		a.t.Fatalf("%s: %s is no object", a.what, a.raw)
	}
	return b[name]
}

func (a *answer) str(name string) string {
	a.t.Helper()
	s, ok := a.at(name).(string)
	if !ok {
		a.t.Fatalf("%s: no text %s in %s", a.what, name, a.raw)
	}
	return s
}

func (a *answer) id() string {
	a.t.Helper()
	return a.str("id")
}

// has fails the test unless the object has those members.
func (a *answer) has(want obj) *answer {
	a.t.Helper()
	for name, v := range want {
		if got := a.at(name); object.EncodeJSONText(got) != object.EncodeJSONText(v) {
			a.t.Fatalf("%s: %s is %s, want %s, in %s", a.what, name, object.EncodeJSONText(got), object.EncodeJSONText(v), a.raw)
		}
	}
	return a
}

// list returns the members of that name of all objects of an array.
func (a *answer) list(name string) []any {
	a.t.Helper()
	l, ok := a.body.([]any)
	if !ok {
		a.t.Fatalf("%s: %s is no array", a.what, a.raw)
	}
	all := []any{}
	for _, o := range l {
		all = append(all, o.(obj)[name])
	}
	return all
}

// is fails the test unless an array's objects have these values.
func (a *answer) is(name string, want ...any) *answer {
	a.t.Helper()
	if got := a.list(name); !slices.Equal(got, want) {
		a.t.Fatalf("%s: %s are %v, want %v", a.what, name, got, want)
	}
	return a
}

// intent creates an intent that anybody can use, and returns its id.
func (h *host) intent(creator string) string {
	h.t.Helper()
	return h.as(creator).post("/intents", obj{"title": "work", "created_by": creator}).ok(201).id()
}

// closedIntent creates an intent for its creator and those with write access.
func (h *host) closedIntent(creator string, others ...string) string {
	h.t.Helper()
	in := h.intent(creator)
	entries := []obj{}
	for _, o := range others {
		entries = append(entries, obj{"principal_id": o, "permission": "write"})
	}
	h.as(creator).do("PUT", "/intents/"+in+"/acl", obj{"default_policy": "closed", "entries": entries}).ok(200)
	return in
}

// channel creates a channel and returns the path of its messages' parent.
func (h *host) channel(creator, intent, name string, more ...obj) string {
	h.t.Helper()
	body := obj{"name": name}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	return "/channels/" + h.as(creator).post("/intents/"+intent+"/channels", body).ok(201).id()
}

// say sends a message and returns its id.
func (c *client) say(channel string, more obj) string {
	c.t.Helper()
	return c.send(channel, more).ok(201).id()
}

func (c *client) send(channel string, more obj) *answer {
	c.t.Helper()
	body := obj{"sender": c.agent, "message_type": "notify", "payload": obj{"n": 1}}
	for k, v := range more {
		body[k] = v
	}
	return c.post(channel+"/messages", body)
}

func (c *client) request(channel, to string, more ...obj) string {
	c.t.Helper()
	body := obj{"message_type": "request", "to": to}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	return c.say(channel, body)
}

func (c *client) respond(channel, request string) *answer {
	c.t.Helper()
	return c.post(channel+"/messages/"+request+"/reply", obj{"sender": c.agent, "payload": obj{"answer": 42}})
}

func (c *client) messages(channel string) *answer {
	c.t.Helper()
	return c.get(channel + "/messages?wait=0")
}

func (c *client) register(more obj) *answer {
	c.t.Helper()
	body := obj{"agent_id": c.agent, "capabilities": []string{}}
	for k, v := range more {
		body[k] = v
	}
	return c.post("/agents/register", body)
}

func read(t testing.TB, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// learn stores what the home of an agent says of it.
func (h *host) learn(home, agent string, record obj) error {
	h.t.Helper()
	var g object.Guest
	if err := json.Unmarshal([]byte(object.EncodeJSONText(record)), &g); err != nil {
		h.t.Fatal(err)
	}
	return h.e.storeGuest(h.t.Context(), agentKey{home, agent}, g)
}

// learned is learn, which must succeed.
func (h *host) learned(home, agent string, record obj) {
	h.t.Helper()
	if err := h.learn(home, agent, record); err != nil {
		h.t.Fatal(err)
	}
}
