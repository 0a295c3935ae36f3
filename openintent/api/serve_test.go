package api

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/object"
)

// desk is another daemon.
var desk = strings.Repeat("de", 32)

var argument = regexp.MustCompile(`\{[a-z]+\}`)

// failing serves a table for an agent of here, and one for whoever it is served to
// elsewhere, over connections, and counts what the log has of it.
func failing(t *testing.T, change func(*route)) (ask func(rt *route, who openintent.Caller) (status int, body []byte, err error), said func() int, held func() int64) {
	var log await.Output
	book := new(budget.Book)
	e, err := openintent.NewEngine(t.Context(), openintent.Config{Store: statedb.New(t), Budget: book, Self: strings.Repeat("01", 32), Log: slog.New(slog.NewTextHandler(&log, nil)),
		OpenTo: func(string) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	peer, err := identity.ParseID(desk)
	if err != nil {
		t.Fatal(err)
	}
	table := newRouteTable(e)
	for i := range table {
		change(&table[i])
	}
	var who openintent.Caller
	s := httptest.NewServer(NewAPI(e, nil).newRouteHandler(table, func(*http.Request) (openintent.Caller, error) { return who, nil }))
	t.Cleanup(s.Close)
	ask = func(rt *route, as openintent.Caller) (int, []byte, error) {
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
		text := log.Take()
		if !strings.Contains(text, "serve_test.go") {
			return 0
		}
		return strings.Count(text, "panicked")
	}, func() int64 { return book.OpenAccount(budget.Answers).HeldBy(peer) }
}

// callers are who may ask for a route.
func (rt *route) callers() []openintent.Caller {
	if rt.home {
		return []openintent.Caller{{Agent: object.Daemon, Home: desk}}
	}
	return []openintent.Caller{{Agent: "planner"}, {Agent: "worker", Home: desk}}
}

// TestAPanicInAnyRouteEndsOneRequest: whichever handler fails so, whoever asked is told,
// the log has the stack once, and nothing of the request stays.
// holds: security.md#agents-on-this-machine
func TestAPanicInAnyRouteEndsOneRequest(t *testing.T) {
	ask, said, held := failing(t, func(rt *route) {
		rt.host, rt.handler = nil, func(r *request) (any, error) {
			if err := r.ChargeCaller(1 << 10); err != nil {
				return nil, err
			}
			panic("a bug")
		}
	})
	for _, rt := range newRouteTable(nil) {
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
	if held := held(); held != 0 {
		t.Errorf("%d bytes of answers are still charged", held)
	}
}

// TestAPanicUnderAnAnswerBreaksIt: what a handler has begun to answer does not look whole
// to its reader, if the handler fails.
// holds: security.md#agents-on-this-machine
func TestAPanicUnderAnAnswerBreaksIt(t *testing.T) {
	ask, said, _ := failing(t, func(rt *route) {
		rt.host, rt.handler = nil, func(r *request) (any, error) {
			r.w.WriteHeader(http.StatusOK)
			io.WriteString(&r.w, ": ok\n\n")
			http.NewResponseController(&r.w).Flush()
			panic("a bug")
		}
	})
	for _, rt := range newRouteTable(nil) {
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
