package remote

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent/api"
	"github.com/acpd/acpd/openintent/object"
)

// spoken is a stream on which a peer has said something, and FIN.
type spoken struct {
	in   io.Reader
	read atomic.Int64 // bytes of it
	deaf atomic.Bool  // CloseRead was called

	mu    sync.Mutex // guards the rest
	out   bytes.Buffer
	ended bool
}

func (s *spoken) Read(b []byte) (int, error) {
	n, err := s.in.Read(b)
	s.read.Add(int64(n))
	return n, err
}

func (s *spoken) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return 0, net.ErrClosed
	}
	return s.out.Write(b)
}

func (s *spoken) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	return nil
}

func (s *spoken) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

func (s *spoken) Cancel()                          { s.Close() }
func (s *spoken) CloseWrite() error                { return nil }
func (s *spoken) CloseRead()                       { s.deaf.Store(true) }
func (s *spoken) Leaving() <-chan struct{}         { return nil }
func (s *spoken) SetReadDeadline(time.Time) error  { return nil }
func (s *spoken) SetWriteDeadline(time.Time) error { return nil }

// alone runs a Gateway that reaches nobody, and is open to all.
func alone(t testing.TB, log slog.Handler) *Gateway {
	t.Helper()
	c, err := OpenGateway(t.Context(), Config{
		Self: identity.ID{9}, Engine: engineOn(openStore(t), slog.New(log)),
		Hosts:   func() []identity.ID { return nil },
		Admit:   func(identity.ID) error { return nil },
		Trusted: func(id identity.ID) (identity.Peer, bool) { return identity.Peer{ID: id}, true },
		Peers:   func() []identity.Peer { return nil },
		OpenTo:  func(identity.Peer) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, c)
	return c
}

// local makes a request of an agent here; without a name it is the operator.
func local[T any](t testing.TB, c *Gateway, agent, method, path, body string) (status int, answer T) {
	t.Helper()
	r := httptest.NewRequest(method, apiPath+path, strings.NewReader(body))
	speak(r, agent)
	w := httptest.NewRecorder()
	c.API.NewHandler(api.IdentifyLocalCaller).ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return w.Code, answer
}

// speak says who makes a request; without a name it is the operator.
func speak(r *http.Request, agent string) {
	if agent == "" {
		r.Header.Set("X-Operator", "true")
		return
	}
	r.Header.Set("X-Agent-ID", agent)
}

// hear has a peer say something, and returns what it is answered.
func (g *Gateway) hear(t testing.TB, from identity.ID, text string) (*http.Response, string) {
	t.Helper()
	s := &spoken{in: strings.NewReader(text)}
	g.ServeStream(t.Context(), from, s)
	if !s.ended {
		t.Fatalf("%q: the stream is open", text)
	}
	if s.out.Len() == 0 {
		return nil, ""
	}
	answer, err := http.ReadResponse(bufio.NewReader(&s.out), nil)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return answer, string(body)
}

// A request that ends before its time is answered, or its stream ends.
func TestHalfARequestIsNoRequest(t *testing.T) {
	t.Parallel()
	c := alone(t, slog.DiscardHandler)
	_, made := local[obj](t, c, "planner", "POST", "intents", `{"title": "Ship it"}`)
	channels, body := "intents/"+made["id"].(string)+"/channels", `{"name": "build"}`
	whole := fmt.Sprintf("POST /api/v1/%s HTTP/1.1\r\nHost: acpd\r\nX-Agent-ID: reviewer\r\nContent-Length: %d\r\n\r\n%s", channels, len(body), body)
	for n := range len(whole) {
		if answer, text := c.hear(t, identity.ID{1}, whole[:n]); answer != nil && answer.StatusCode != 400 {
			t.Errorf("%q: %d %s", whole[:n], answer.StatusCode, text)
		}
	}
	if answer, text := c.hear(t, identity.ID{1}, whole); answer.StatusCode != 201 { // there was none yet
		t.Errorf("%d %s", answer.StatusCode, text)
	}
}

// An ask whose host stops says that it is the host, and what is known of the request.
func TestAnAskOfAHostThatStops(t *testing.T) {
	t.Parallel()
	c := alone(t, slog.DiscardHandler)
	_, made := local[obj](t, c, "planner", "POST", "intents", `{"title": "Ship it"}`)
	_, made = local[obj](t, c, "planner", "POST", "intents/"+made["id"].(string)+"/channels", `{"name": "build"}`)
	channel, body := "channels/"+made["id"].(string), `{"to": "planner", "payload": {}}`
	s := &spoken{in: strings.NewReader(fmt.Sprintf("POST /api/v1/%s/ask HTTP/1.1\r\nHost: acpd\r\nX-Agent-ID: reviewer\r\nContent-Length: %d\r\n\r\n%s", channel, len(body), body))}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() { defer close(ended); c.ServeStream(ctx, identity.ID{1}, s) }()
	await.Until(t, "the request", func() bool {
		_, got := local[[]obj](t, c, "planner", "GET", channel+"/messages", "")
		return len(got) == 1
	})
	stop()
	await.Receive(t, "the end", ended)
	_, text, _ := strings.Cut(s.said(), "\r\n\r\n")
	var e obj
	if err := json.Unmarshal([]byte(text), &e); err != nil || e["error"] != "cancelled" || e["delivered"] != "unknown" || !strings.HasPrefix(e["message"].(string), "the intent's host stops") {
		t.Errorf("%s", s.said())
	}
}

// One that does not go on ends too, in the end.
func TestSilenceIsNotListenedToForLong(t *testing.T) {
	t.Parallel()
	c := alone(t, slog.DiscardHandler)
	c.ctx.Done() // makes its channel, which belongs to no bubble
	synctest.Test(t, func(t *testing.T) {
		for text, want := range map[string]struct {
			after  time.Duration
			status string
		}{
			"":                                     {headTime, ""},
			"GET /api/v1/intents HTTP/1.1\r\nHost": {headTime, ""},
			"POST /api/v1/intents HTTP/1.1\r\nHost: acpd\r\nX-Agent-ID: reviewer\r\nContent-Length: 3\r\n\r\n{": {requestTime, "400"},
		} {
			here, there := net.Pipe()
			go there.Write([]byte(text))
			answer := make(chan string, 1)
			go func() {
				head, _ := bufio.NewReader(there).ReadString('\n')
				answer <- head
				there.Close()
			}()
			begin := time.Now()
			c.ServeStream(t.Context(), identity.ID{1}, piped{here})
			if took := time.Since(begin); took < want.after || took > want.after+time.Second {
				t.Errorf("%q ended after %v", text, took)
			}
			if head := <-answer; !strings.Contains(head, want.status) {
				t.Errorf("%q: %s", text, head)
			}
		}
	})
}

// TestRequestIsReadOnce says nothing more after a request: what its stream still
// brings is dropped while the answer, an event stream here, goes on.
func TestRequestIsReadOnce(t *testing.T) {
	t.Parallel()
	c := alone(t, slog.DiscardHandler)
	for _, text := range []string{
		"GET /api/v1/subscribe/home HTTP/1.1\r\nHost: acpd\r\nX-Agent-ID: " + object.Daemon + "\r\n\r\n",
		"POST /api/v1/departed HTTP/1.1\r\nHost: acpd\r\nX-Agent-ID: " + object.Daemon + "\r\nContent-Length: 13\r\n\r\n{\"agents\":[]}",
	} {
		here, there := net.Pipe()
		s := &spoken{in: io.MultiReader(strings.NewReader(text), there)}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan struct{})
		go func() { defer close(served); c.ServeStream(ctx, identity.ID{1}, s) }()
		await.Until(t, "the stream is read no more", s.deaf.Load)
		here.Close()
		cancel()
		<-served
	}
}

// piped is a connection as a stream.
type piped struct{ net.Conn }

func (piped) CloseWrite() error { return nil }
func (piped) CloseRead()        {}

func (piped) Leaving() <-chan struct{} { return nil }
func (p piped) Cancel()                { p.Close() }

// openAnsweringStream returns a stream to a host that reads one request, answers it and hangs up. It ends with ctx.
func openAnsweringStream(ctx context.Context, answer func(r *http.Request, to net.Conn)) Stream {
	here, there := net.Pipe()
	context.AfterFunc(ctx, func() { here.Close() })
	go func() {
		defer there.Close()
		if r, err := http.ReadRequest(bufio.NewReader(there)); err == nil {
			io.Copy(io.Discard, r.Body)
			answer(r, there)
		}
	}()
	return piped{here}
}

// Who is not admitted, or has too much under way, is given nothing: not the
// descriptions that need no caller, and no word of what paths there are.
// holds: security.md#the-budget
func TestNothingIsMadeForWhoIsNotAdmitted(t *testing.T) {
	t.Parallel()
	c := alone(t, slog.DiscardHandler)
	paths := []string{"/openapi.json", "/.well-known/openintent.json", "/api/v1/nothing", "/api/v1/intents", "/api/v1/subscribe/home"}
	tell := func(status int, code string) {
		t.Helper()
		for range 10 {
			for _, path := range paths {
				answer, text := c.hear(t, identity.ID{1}, "GET "+path+" HTTP/1.1\r\nHost: acpd\r\n\r\n")
				var e obj
				if err := json.Unmarshal([]byte(text), &e); err != nil || answer.StatusCode != status || e["error"] != code {
					t.Errorf("%s: %d %.200s", path, answer.StatusCode, text)
				}
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	for range budget.ChannelRequests.Peer {
		s := &spoken{in: strings.NewReader("GET /api/v1/subscribe/agents/worker HTTP/1.1\r\nHost: acpd\r\nX-Agent-ID: worker\r\n\r\n")}
		serving.Go(func() { c.ServeStream(ctx, identity.ID{1}, s) })
		await.Until(t, "a stream", func() bool { return strings.Contains(s.said(), ": ok") })
	}
	tell(429, "overloaded")
	const list = "GET /api/v1/intents HTTP/1.1\r\nHost: acpd\r\nX-Agent-ID: reviewer\r\n\r\n"
	if answer, text := c.hear(t, identity.ID{2}, list); answer.StatusCode != 200 {
		t.Errorf("another daemon: %d %s", answer.StatusCode, text)
	}
	cancel()
	serving.Wait()
	if answer, text := c.hear(t, identity.ID{1}, list); answer.StatusCode != 200 {
		t.Errorf("afterwards: %d %.200s", answer.StatusCode, text)
	}
	c.cfg.Admit = func(identity.ID) error { return kinds.Errorf(kinds.NotAuthorized, "no channels") }
	tell(403, "not_authorized")
}
