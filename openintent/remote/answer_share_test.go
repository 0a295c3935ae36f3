package remote

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/openintent/api"
	"github.com/acpd/acpd/openintent/object"
)

// Ids of what two hosts say, one at a time.
const (
	sayerIntent  = "intent_%s_01M7WK708745SZDSQ20JGH2Z1P"
	sayerChannel = "chan_%s_01M7WK708745SZDSQ20JGH2Z1P"
)

// sayers is a home at which says writes what each host answers, after the request.
func sayers(t *testing.T, book *budget.Book, says func(host identity.ID, path string, w io.Writer, stop <-chan struct{})) (c *Gateway, first, second identity.ID) {
	t.Helper()
	first, second = identity.ID{1}, identity.ID{2}
	cfg := engineOn(openStore(t), slog.New(slog.DiscardHandler))
	cfg.Budget = book
	c, err := OpenGateway(t.Context(), Config{
		Self: identity.ID{9}, Engine: cfg,
		Trusted: func(id identity.ID) (identity.Peer, bool) { return identity.Peer{ID: id}, true },
		Peers: func() []identity.Peer {
			return []identity.Peer{{ID: first, Name: "desk"}, {ID: second, Name: "laptop"}}
		},
		Hosts:  func() []identity.ID { return nil },
		OpenTo: func(identity.Peer) bool { return false },
		Open: func(ctx context.Context, to identity.ID) (Stream, error) {
			return openAnsweringStream(ctx, func(r *http.Request, s net.Conn) {
				switch {
				case strings.Contains(r.URL.Path, "/subscribe/"):
					io.WriteString(s, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}")
				default:
					says(to, r.URL.Path, s, ctx.Done())
				}
			}), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, c)
	return c, first, second
}

// asks makes a request of an agent here.
func (g *Gateway) asks(ctx context.Context, path string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", apiPath+path, nil)
	speak(r, "planner")
	g.API.NewHandler(api.IdentifyLocalCaller).ServeHTTP(w, r)
	return w
}

// What a host answers and this daemon has to keep is charged to the host until it has
// gone to its agent: over its share an answer is refused, and those of another host come.
// holds: security.md#the-budget
func TestAnswersOfAHostAreCharged(t *testing.T) {
	// Alone: it looks at the memory of all.
	book := new(budget.Book)
	const begun = 8 << 20 // of each answer, before its host is silent
	first, digits := identity.ID{1}, func(id identity.ID) string { return id.String()[:object.HostDigits] }
	c, first, second := sayers(t, book, func(host identity.ID, _ string, w io.Writer, stop <-chan struct{}) {
		if host == first {
			fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", begun+1)
			io.WriteString(w, "["+strings.Repeat(" ", begun-1))
			<-stop
			return
		}
		io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
	})
	path := func(id identity.ID) string { return "intents/" + fmt.Sprintf(sayerIntent, digits(id)) + "/channels" }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	answers := make(chan *httptest.ResponseRecorder)
	var asked sync.WaitGroup
	const asks = 40 // ten times the share
	refused := 0
	for range asks {
		asked.Go(func() { answers <- c.asks(ctx, path(first)) })
	}
	for n := range asks - int(budget.Answers.Peer/begun) {
		a := <-answers
		if a.Code == http.StatusGatewayTimeout {
			continue // on a slow machine the first are given up before the last have come
		}
		refused++
		var said map[string]any
		if err := json.Unmarshal(a.Body.Bytes(), &said); err != nil || a.Code != http.StatusTooManyRequests || said["error"] != "overloaded" ||
			said["row"] != budget.Answers.Name || said["delivered"] != "unknown" || a.Header().Get("Retry-After") == "" || a.Header().Get(headerHost) != "" {
			t.Fatalf("%d: %d %v %s: %v", n, a.Code, a.Header(), a.Body, err)
		}
	}
	if n := answersHeld(book); n > budget.Answers.Peer || refused == 0 {
		t.Errorf("%d bytes are charged, %d answers were refused", n, refused)
	}
	runtime.GC()
	runtime.ReadMemStats(&during)
	if more := int64(during.HeapAlloc) - int64(before.HeapAlloc); more > 4*budget.Answers.Peer {
		t.Errorf("the heap has grown by %d bytes", more)
	}
	if a := c.asks(ctx, path(second)); a.Code != http.StatusOK || a.Header().Get(headerHost) != second.String() {
		t.Errorf("another host: %d %v %s", a.Code, a.Header(), a.Body)
	}
	cancel()
	go func() { asked.Wait(); close(answers) }()
	for range answers {
	}
	if n := answersHeld(book); n != 0 {
		t.Errorf("%d bytes are charged when all is over", n)
	}
}

// An intent or a channel has not the length of a list.
func TestOneObjectIsNoList(t *testing.T) {
	t.Parallel()
	c, first, _ := sayers(t, new(budget.Book), func(_ identity.ID, path string, w io.Writer, _ <-chan struct{}) {
		body := "{" + strings.Repeat(" ", maxNamed) + "}"
		if strings.HasSuffix(path, "/channels") {
			body = "[" + strings.Repeat(" ", maxNamed) + "]"
		}
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	})
	digits := first.String()[:object.HostDigits]
	intent, channel := fmt.Sprintf(sayerIntent, digits), fmt.Sprintf(sayerChannel, digits)
	for path, status := range map[string]int{"intents/" + intent: 502, "channels/" + channel: 502, "intents/" + intent + "/channels": 200} {
		if a := c.asks(t.Context(), path); a.Code != status || (a.Header().Get(headerHost) != "") != (status == 200) {
			t.Errorf("%s: %d %v %.200s", path, a.Code, a.Header(), a.Body)
		}
	}
}

// What comes after an answer is not passed on: its names could be those of headers that
// are this daemon's to set.
func TestTrailersOfAHostEndHere(t *testing.T) {
	t.Parallel()
	c, first, _ := sayers(t, new(budget.Book), func(_ identity.ID, _ string, w io.Writer, _ <-chan struct{}) {
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: %s\r\n\r\n2\r\n[]\r\n0\r\n%s: here\r\nX-Other: there\r\n\r\n", headerHost, headerHost)
	})
	a := c.asks(t.Context(), "intents/"+fmt.Sprintf(sayerIntent, first.String()[:object.HostDigits])+"/channels")
	if said := a.Result(); a.Code != http.StatusOK || a.Body.String() != "[]" || len(said.Trailer) > 0 || said.Header.Get(headerHost) != first.String() {
		t.Errorf("%d %v %v %s", a.Code, said.Header, said.Trailer, a.Body)
	}
}
