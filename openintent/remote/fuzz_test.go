package remote

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
)

// FuzzServe has a peer say anything at all on a stream of a request: raw, and then a
// tail over and over. Its stream ends, with at most one answer; little is read and
// nothing panics; and the engine takes it for nobody but an agent of that peer.
func FuzzServe(f *testing.F) {
	const agent = "Host: acpd\r\nX-Agent-ID: welder\r\n"
	post := func(path, agent, body string) string {
		return fmt.Sprintf("POST /api/v1/%s HTTP/1.1\r\nHost: acpd\r\nX-Agent-ID: %s\r\nContent-Length: %d\r\n\r\n%s", path, agent, len(body), body)
	}
	for _, good := range []string{
		"GET /api/v1/intents HTTP/1.1\r\n" + agent + "\r\n", "GET /v1/$open HTTP/1.1\r\n" + agent + "\r\n", "GET /api/v1/$closed HTTP/1.1\r\n" + agent + "\r\n",
		"GET /api/v1/$open/subscribe HTTP/1.1\r\n" + agent + "\r\n", "GET /api/v1/subscribe/home HTTP/1.1\r\nHost: acpd\r\nX-Agent-ID: system\r\nLast-Event-ID: 0\r\n\r\n",
		"GET /api/v1/$channel/messages?wait=1 HTTP/1.1\r\n" + agent + "\r\n", "HEAD /api/v1/agents HTTP/1.1\r\n" + agent + "\r\n", "GET /openapi.json HTTP/1.0\r\n\r\n",
		"DELETE /api/v1/$channel HTTP/1.1\r\n" + agent + "\r\n", "DELETE /api/v1/$open/homes/reviewer HTTP/1.1\r\n" + agent + "\r\n",
		"GET /api/v1/intents HTTP/1.1\r\n" + agent + "X-Agent-Record: {\"status\":\"active\"}\r\n\r\n", post("departed", "system", `{"agents":["planner"]}`),
		"PUT /api/v1/$closed/acl HTTP/1.1\r\n" + agent + "Content-Length: 25\r\n\r\n{\"default_policy\":\"open\"}",
		post("$channel/messages", "welder", `{"payload":{}}`), post("$channel/messages", "welder", `{"sender":"planner","payload":{}}`),
		post("$channel/messages", "planner", `{"payload":{}}`), post("$channel/messages", "reviewer", `{"payload":{}}`), post("$channel/messages", "system", `{"payload":{}}`),
		post("$closed/channels", "planner", `{"name":"x"}`), post("$open/agents", "welder", `{"agent_id":"planner"}`), post("agents/register", "planner", `{}`),
		post("$channel/ask", "welder", `{"to":"planner","payload":{},"timeout":1}`), post("intents", "welder", `{"title":"x"}`), post("$channel/messages", "welder", "{"),
		"POST /api/v1/$channel/messages HTTP/1.1\r\n" + agent + "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\nE\r\n{\"payload\":{}}\r\n0\r\n\r\n",
	} {
		f.Add([]byte(good), []byte(nil), uint32(0))
		second := post("$channel/messages", "boilermaker", `{"payload":{}}`)
		f.Add([]byte(good), []byte(second), uint32(4*len(second)))
	}
	for _, bad := range []string{
		"", "GET", "\x00", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET /api/v1/intents HTTP/1.1\r\nHost: acpd\r\n\r\n", "GET http://[::1 HTTP/1.1\r\n\r\n",
		"CONNECT acpd:1 HTTP/1.1\r\nHost: acpd\r\n\r\n", "OPTIONS * HTTP/1.1\r\n" + agent + "\r\n", "GET /api/v1/intents HTTP/1.1\r\n" + agent + "X-Agent-ID: planner\r\n\r\n",
		"GET /api/v1/intents HTTP/1.1\r\n" + agent + "Upgrade: h2c\r\nConnection: Upgrade\r\n\r\n", "GET /api/v1/agents HTTP/1.1\r\nHost: acpd\r\nX-Agent-ID: \xff\r\nX-API-Key: k\r\n\r\n",
		"POST /api/v1/$channel/messages HTTP/1.1\r\n" + agent + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST /api/v1/$channel/messages HTTP/1.1\r\n" + agent + "Content-Length: 9999999999999\r\n\r\n", "GET /api/v1/..//%2e%2e/%00 HTTP/1.1\r\n" + agent + "\r\n",
	} {
		f.Add([]byte(bad), []byte(nil), uint32(0))
	}
	const chunks = "POST /api/v1/$channel/messages HTTP/1.1\r\n" + agent + "Transfer-Encoding: chunked\r\n\r\n"
	for _, endless := range []struct{ raw, tail string }{
		{"", "a"}, {"", "\r\n"}, {"GET / HTTP/1.1\r\n", "X: y\r\n"}, {"GET / HTTP/1.1\r\nHost: ", "a"}, {chunks, "1\r\na\r\n"}, {chunks, "0"}, {chunks + "fffff\r\n", "a"}, {chunks, "1;x=y\r\n1\r\n"},
		{"POST /api/v1/$channel/messages HTTP/1.1\r\n" + agent + "Content-Length: 9999999999999\r\n\r\n", " "}, {chunks + "0\r\n", "X: y\r\n"},
	} {
		f.Add([]byte(endless.raw), []byte(endless.tail), uint32(32<<20))
	}
	s := new(stage)
	s.Gateway = alone(f, s)
	runs := 0
	f.Fuzz(func(t *testing.T, raw, tail []byte, more uint32) {
		s.t = t
		if runs++; runs%256 == 1 { // whatever was made of it
			s.set()
		}
		said := s.known.Replace(string(raw))
		in := &spoken{in: io.MultiReader(strings.NewReader(said), io.LimitReader(&again{text: []byte(s.known.Replace(string(tail)))}, int64(more)%(64<<20)))}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // streams and waits end
		defer cancel()
		s.ServeStream(ctx, fuzzer, in)
		if !in.ended {
			t.Error("the stream is open")
		}
		if n := int(in.read.Load()); n > len(said)+16<<20 { // a chunk may be one byte, and 18 around it
			t.Errorf("%d bytes are read", n)
		}
		s.answers(&in.out)
		s.unharmed()
	})
}

// again is a text over and over.
type again struct {
	text []byte
	at   int
}

func (a *again) Read(b []byte) (n int, err error) {
	if len(a.text) == 0 {
		return 0, io.EOF
	}
	for n < len(b) {
		c := copy(b[n:], a.text[a.at:])
		n, a.at = n+c, (a.at+c)%len(a.text)
	}
	return n, nil
}

// Who says anything at all, and whom it must not reach.
var fuzzer, other = identity.ID{1}, identity.ID{2}

// stage is a host with an intent for all and one for the planner alone, who is at home
// here; the reviewer is at home at another daemon.
type stage struct {
	*Gateway
	t            testing.TB
	open, closed string
	known        *strings.Replacer
	heard        int // events of the open intent that were looked at
	secret       int // those of the closed one
}

func (s *stage) set() {
	s.t.Helper()
	made := func(path, body string) string {
		_, made := local[obj](s.t, s.Gateway, "planner", "POST", path, body)
		return made["id"].(string)
	}
	local[obj](s.t, s.Gateway, "planner", "POST", "agents/register", `{}`)
	s.open, s.closed = "intents/"+made("intents", `{"title":"open"}`), "intents/"+made("intents", `{"title":"closed"}`)
	local[obj](s.t, s.Gateway, "planner", "PUT", s.closed+"/acl", `{"default_policy":"closed","entries":[]}`)
	channel := "channels/" + made(s.open+"/channels", `{"name":"build","options":{"audit":true}}`)
	if answer, text := s.hear(s.t, other, "POST /api/v1/"+channel+"/messages HTTP/1.1\r\nHost: acpd\r\nX-Agent-ID: reviewer\r\nContent-Length: 14\r\n\r\n"+`{"payload":{}}`); answer.StatusCode != 201 {
		s.t.Fatal(text)
	}
	s.known = strings.NewReplacer("$open", s.open, "$closed", s.closed, "$channel", channel)
	s.heard, s.secret = len(s.events(s.open)), len(s.events(s.closed))
}

// list is a list as the operator sees it.
func (s *stage) list(path string) []obj {
	s.t.Helper()
	_, all := local[[]obj](s.t, s.Gateway, "", "GET", path, "")
	return all
}

func (s *stage) events(intent string) []obj {
	s.t.Helper()
	return s.list(intent + "/events?limit=1000")
}

// answers fails the test unless there is one answer, or none, and no failure.
func (s *stage) answers(out io.Reader) {
	s.t.Helper()
	lines := bufio.NewReader(out)
	for {
		if _, err := lines.Peek(1); err == io.EOF {
			return
		}
		answer, err := http.ReadResponse(lines, nil)
		switch {
		case err != nil:
			s.t.Fatalf("the answer: %v", err)
		case answer.StatusCode == http.StatusContinue:
			continue
		case answer.StatusCode == http.StatusInternalServerError, answer.StatusCode < 200:
			s.t.Errorf("it answers %s", answer.Status)
		}
		io.Copy(io.Discard, answer.Body)
		if rest, _ := io.Copy(io.Discard, lines); rest > 0 {
			s.t.Errorf("%d bytes come after the answer", rest)
		}
		return
	}
}

// unharmed fails the test where somebody was taken for an agent that is not at home at
// the fuzzer.
func (s *stage) unharmed() {
	s.t.Helper()
	if all := s.events(s.closed); len(all) != s.secret {
		s.t.Errorf("it changed the closed intent: %v", all)
	}
	all := s.events(s.open)
	for _, e := range all {
		if actor := e["actor"]; e["sequence"].(float64) > float64(s.heard) && (actor == "planner" || actor == "reviewer" || actor == "operator") {
			s.t.Errorf("%v", e)
		}
	}
	s.heard = len(all)
	for _, h := range s.list(s.open + "/homes") {
		want := map[any]string{"planner": "", "reviewer": other.String()}
		home, known := want[h["agent_id"]]
		if !known {
			home = fuzzer.String()
		}
		if h["home"] != home {
			s.t.Errorf("%v", h)
		}
	}
	for _, a := range s.list("agents") {
		if host := a["host"]; host != fuzzer.String() && (host != nil || a["agent_id"] != "planner") {
			s.t.Errorf("%v", a)
		}
	}
}

// The log of the stage: a panic is a line of net/http's.
func (s *stage) Enabled(context.Context, slog.Level) bool { return true }
func (s *stage) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s *stage) WithGroup(string) slog.Handler            { return s }
func (s *stage) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError || strings.Contains(r.Message, "panic") {
		s.t.Error(r.Message)
	}
	return nil
}
