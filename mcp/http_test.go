package mcp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

// serveHTTP serves until the test ends, and returns the URL.
func serveHTTP(t *testing.T, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	urls, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- s.ServeHTTP(ctx, l, func(url string) { urls <- url }) }()
	t.Cleanup(func() {
		cancel()
		if err := await.Receive(t, "the server has ended", ended); !errors.Is(err, context.Canceled) {
			t.Errorf("serve: %v", err)
		}
		s.Daemon.Close()
	})
	return await.Receive(t, "the URL", urls)
}

// postHTTP posts a message to a server. An empty host is that of the URL, and an empty origin is not sent.
func postHTTP(t *testing.T, url, host, origin, message string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequest("POST", url, strings.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body)
}

// holds: security.md#agents-on-this-machine
func TestHTTP(t *testing.T) {
	d := newFakeDaemon(t)
	at := serveHTTP(t, &Server{Daemon: &client.Client{Socket: d.path}})
	s, err := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, nil).Connect(await.NewContext(t), &sdk.StreamableClientTransport{Endpoint: at}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r, err := s.CallTool(await.NewContext(t), &sdk.CallToolParams{Name: "acp_peers"}); err != nil || r.IsError {
		t.Errorf("%+v, %v", r, err)
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, host, origin string
		want               int
	}{
		{u.Path, u.Host, "", 200},
		{u.Path, "localhost:" + u.Port(), "", 200},
		{u.Path, u.Host, "http://" + u.Host, 200},
		{u.Path, "evil.example.com", "", 403},
		{u.Path, "evil.example.com:" + u.Port(), "", 403},
		{u.Path, "127.0.0.1:1", "", 403},
		{u.Path, "127.0.0.1", "", 403},
		{u.Path, u.Host, "http://evil.example.com", 403},
		{u.Path, u.Host, "http://127.0.0.1:1", 403},
		{u.Path, u.Host, "https://" + u.Host, 403},
		{u.Path, u.Host, "null", 403},
		{"/", u.Host, "", 401},
		{u.Path + "x", u.Host, "", 401},
		{u.Path[:len(u.Path)-1], u.Host, "", 401},
	} {
		status, text := postHTTP(t, "http://"+u.Host+c.path, c.host, c.origin, beginsSession)
		if status != c.want || strings.Contains(text, strings.TrimPrefix(u.Path, "/")) {
			t.Errorf("%s, host %q, origin %q: %d %s, want %d", c.path, c.host, c.origin, status, text, c.want)
		}
	}
}

// Over HTTP too, an id that would come back as another one is refused.
func TestIDsOverHTTP(t *testing.T) {
	at := serveHTTP(t, &Server{Daemon: &client.Client{Socket: newFakeDaemon(t).path}})
	for id, want := range map[string]int{"9007199254740991": 200, "9007199254740993": 400} {
		status, text := postHTTP(t, at, "", "", strings.Replace(beginsSession, `"id":1`, `"id":`+id, 1))
		if status != want || !strings.Contains(text, `"id":`+id) {
			t.Errorf("%s: %d %s, want %d", id, status, text, want)
		}
	}
}

func TestHTTPIsOnLoopbackAlone(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Daemon: new(client.Client)}
	if err := s.ServeHTTP(t.Context(), l, func(string) { t.Error("announced") }); err == nil || !strings.Contains(err.Error(), "not on loopback") {
		t.Errorf("%v", err)
	}
}
