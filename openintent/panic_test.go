package openintent

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
)

var argument = regexp.MustCompile(`\{[a-z]+\}`)

// failing serves a table for an agent of here, and one for whoever it is served to
// elsewhere, over connections, and counts what the log has of it.
func failing(t *testing.T, change func(*route)) (ask func(rt *route, who Caller) (status int, body []byte, err error), said func() int, h *host) {
	var log lockedLog
	h = start(t, toOthers, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	table := routes()
	for i := range table {
		change(&table[i])
	}
	var who Caller
	s := httptest.NewServer(h.e.handler(table, func(*http.Request) (Caller, error) { return who, nil }))
	t.Cleanup(s.Close)
	ask = func(rt *route, as Caller) (int, []byte, error) {
		who = as
		at := rt.path
		if at[0] != '/' {
			at = prefixes[0] + argument.ReplaceAllString(at, "x")
		}
		r, err := http.NewRequest(rt.method, s.URL+at, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := s.Client().Do(r)
		if err != nil {
			return 0, nil, err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return answer.StatusCode, body, err
	}
	return ask, func() int {
		text := log.take()
		if !strings.Contains(text, "panic_test.go") {
			return 0
		}
		return strings.Count(text, "panicked")
	}, h
}

// lockedLog is what a log has said.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// callers are who may ask for a route.
func (rt *route) callers() []Caller {
	if rt.home {
		return []Caller{{Agent: Daemon, Home: desk}}
	}
	return []Caller{{Agent: "planner"}, {Agent: "worker", Home: desk}}
}

// TestAPanicInAnyRouteEndsOneRequest: whichever handler fails so, whoever asked is told,
// the log has the stack once, and nothing of the request stays.
func TestAPanicInAnyRouteEndsOneRequest(t *testing.T) {
	ask, said, h := failing(t, func(rt *route) {
		rt.read, rt.do = nil, func(r *request) (any, error) {
			if err := r.take(1 << 10); err != nil {
				return nil, err
			}
			panic("a bug")
		}
	})
	for _, rt := range routes() {
		for _, who := range rt.callers() {
			status, body, err := ask(&rt, who)
			var e struct {
				Error string `json:"error"`
			}
			if json.Unmarshal(body, &e); err != nil || status != 500 || e.Error != "internal" {
				t.Errorf("%s %s of %v: %d %s, %v", rt.method, rt.path, who, status, body, err)
			}
			if n := said(); n != 1 {
				t.Errorf("%s %s: the log has the stack %d times", rt.method, rt.path, n)
			}
		}
	}
	if held := h.e.unread.Held(peerOf(desk)); held != 0 {
		t.Errorf("%d bytes of answers are still charged", held)
	}
}

// TestAPanicUnderAnAnswerBreaksIt: what a handler has begun to answer does not look whole
// to its reader, if the handler fails.
func TestAPanicUnderAnAnswerBreaksIt(t *testing.T) {
	ask, said, _ := failing(t, func(rt *route) {
		rt.read, rt.do = nil, func(r *request) (any, error) {
			r.w.WriteHeader(http.StatusOK)
			io.WriteString(&r.w, ": ok\n\n")
			http.NewResponseController(&r.w).Flush()
			panic("a bug")
		}
	})
	for _, rt := range routes() {
		if !rt.stream {
			continue
		}
		for _, who := range rt.callers() {
			if status, body, err := ask(&rt, who); status != 200 || err == nil {
				t.Errorf("%s %s: %d %s looks whole", rt.method, rt.path, status, body)
			}
			if n := said(); n != 1 {
				t.Errorf("%s %s: the log has the stack %d times", rt.method, rt.path, n)
			}
		}
	}
}

// TestAPanicInsideAWriteEndsThatOne: nothing of it is kept, others go on, and so does the
// feed.
func TestAPanicInsideAWriteEndsThatOne(t *testing.T) {
	var fails atomic.Bool
	h := start(t, func(c *Config) {
		c.Inside = func(write func() error) error {
			err := write()
			if fails.Load() {
				panic("a bug")
			}
			return err
		}
		c.Freeing = func(free func() error) error { return free() }
	})
	stop := h.run()
	defer stop()
	in := h.intent("planner")
	ch := h.channel("planner", in, "build")
	events := h.follow(h.as("reviewer"), "/subscribe"+ch)
	defer events.stop()
	fails.Store(true)
	p := h.as("planner")
	for what, a := range map[string]func() *answer{
		"an intent": func() *answer { return p.post("/intents", obj{"title": "t"}) },
		"a channel": func() *answer { return p.post("/intents/"+in+"/channels", obj{"name": "test"}) },
		"a message": func() *answer { return p.post(ch+"/messages", obj{"payload": obj{}}) },
		"an ask":    func() *answer { return p.post(ch+"/ask", obj{"payload": obj{}, "to": "reviewer", "timeout": 1}) },
		"a state": func() *answer {
			return p.with("If-Match", "1").post("/intents/"+in+"/state", obj{"patches": []obj{{"op": "set", "path": "/a", "value": 1}}})
		},
		"a deletion": func() *answer { return p.do("DELETE", ch, nil) },
		"an agent":   func() *answer { return p.post("/agents", obj{"agent_id": "planner"}) },
	} {
		t.Log(what)
		a().refused(500, "internal")
	}
	fails.Store(false)
	p.get(ch).ok(200).has(obj{"status": "open"})
	if n := len(p.get(ch + "/messages").ok(200).list("id")); n != 0 {
		t.Errorf("%d messages of writes that failed are there", n)
	}
	p.post(ch+"/messages", obj{"payload": obj{}}).ok(201)
	events.next()
}
