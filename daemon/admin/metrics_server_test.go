package admin

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/metrics"
)

// openMetrics serves metrics at an address until the test ends. What they say is one family.
func openMetrics(t testing.TB, cfg config.Metrics, log slog.Handler) *MetricsServer {
	t.Helper()
	families := []metrics.Family{{Name: "acpd_ready", Type: metrics.Gauge, Help: "One.", Write: metrics.One(1)}}
	s, err := OpenMetrics(t.Context(), cfg, MetricsConfig{
		ListFamilies:   func(context.Context) []metrics.Family { return families },
		CheckReadiness: func(context.Context) []string { return nil },
		MaxConns:       1000, Log: slog.New(log),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return s
}

func openOnLoopback(t testing.TB) *MetricsServer {
	return openMetrics(t, config.Metrics{Listen: ":0"}, slog.DiscardHandler)
}

// dialMetrics connects to the metrics server.
func dialMetrics(t *testing.T, s *MetricsServer) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(await.Patience))
	return c
}

// askMetrics writes a request as it is, and returns the answer's status.
func askMetrics(t *testing.T, s *MetricsServer, request string) int {
	t.Helper()
	c := dialMetrics(t, s)
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%.80q: %v", request, err)
	}
	// The body is not closed, since that waits for the one that the answer to HEAD does not have.
	if answer.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("a page of another origin may read it")
	}
	return answer.StatusCode
}

// askPath asks for a path of the metrics server, and returns the answer's status.
func askPath(t *testing.T, s *MetricsServer, path string) int {
	t.Helper()
	return askMetrics(t, s, "GET "+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
}

// Nothing but short reads by somebody who knows the address is served.
func TestMetricsRefuseRequests(t *testing.T) {
	t.Parallel()
	s := openOnLoopback(t)
	for request, want := range map[string]int{
		"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:7119\r\n\r\n":                                      200,
		"GET /healthz HTTP/1.1\r\nHost: [::1]\r\n\r\n":                                               200,
		"GET /healthz HTTP/1.1\r\nHost: LocalHost:7119\r\n\r\n":                                      200,
		"GET /healthz HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n":                                           200,
		"GET /healthz HTTP/1.0\r\n\r\n":                                                              200,
		"HEAD /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":                                          200,
		"GET /metrics?x=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":                                       200,
		"GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n":                                     421,
		"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1.rebound.example:7119\r\n\r\n":                      421,
		"GET http://rebound.example/metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":                     421,
		"GET /metrics HTTP/1.1\r\n\r\n":                                                              400,
		"POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n":                     405,
		"OPTIONS /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://rebound.example\r\n\r\n":    405,
		"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\n\r\nabc":                   413,
		"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n": 413,
		"GET /readyz/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":                                           404,
		"GET //metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":                                          404,
		"GET /debug/pprof/heap HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":                                  404,
		"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + strings.Repeat("x", 16<<10) + "\r\n\r\n": 431,
		"GET /" + strings.Repeat("x", 16<<10) + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":               431,
	} {
		if got := askMetrics(t, s, request); got != want {
			t.Errorf("%.80q: %d, want %d", request, got, want)
		}
	}
}

// Clients that say nothing, and ones that read nothing, hold only so many places, and keep nobody
// else out for longer than their time.
func TestSlowScrapersAreBounded(t *testing.T) {
	t.Parallel()
	s := openOnLoopback(t)
	for range maxMetricsConns {
		io.WriteString(dialMetrics(t, s), "GET /metrics HTTP/1.1\r\n")
	}
	if status := askPath(t, s, "/healthz"); status != 200 {
		t.Errorf("healthz: %d", status)
	}
	for range 2 * maxMetricsConns {
		c := dialMetrics(t, s)
		for range 8 {
			io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		}
	}
	if status := askPath(t, s, "/readyz"); status != 200 {
		t.Errorf("readyz: %d", status)
	}
}

// Many scrapes at a time get one text.
func TestManyScrapesCostOne(t *testing.T) {
	t.Parallel()
	s := openOnLoopback(t)
	var all sync.WaitGroup
	begun := time.Now()
	texts := make([][]byte, 32)
	for i := range texts {
		all.Go(func() { texts[i] = s.takeText() })
	}
	all.Wait()
	seconds := int(time.Since(begun)/time.Second) + 1
	made := make(map[*byte]bool)
	for _, text := range texts {
		made[&text[0]] = true
	}
	if len(made) > seconds {
		t.Errorf("%d scrapes made %d texts in %d seconds", len(texts), len(made), seconds)
	}
}

// Metrics may be served on a unix socket, for the daemon's user alone.
func TestMetricsOnASocket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "metrics.sock")
	s, err := OpenMetrics(t.Context(), config.Metrics{Listen: path}, MetricsConfig{MaxConns: 16, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	at := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	answer, err := at.Get("http://desk.example/healthz")
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("%+v, %v", answer, err)
	}
	answer.Body.Close()
	at.CloseIdleConnections()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}

	// A second daemon does not take the path from the first, nor from a file.
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{path: "another program serves", file: "is no socket"} {
		if _, err := OpenMetrics(t.Context(), config.Metrics{Listen: path}, MetricsConfig{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	cancel()
	if err := await.Receive(t, "the server ends", ended); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// What is listened on for others is said in the log; there the name of the host does not matter.
func TestExposedMetricsAreWarnedOf(t *testing.T) {
	t.Parallel()
	var log await.Output
	s := openMetrics(t, config.Metrics{Listen: "0.0.0.0:0", Expose: true}, slog.NewTextHandler(&log, nil))
	if !strings.Contains(log.String(), "other machines can read the metrics") {
		t.Errorf("the log: %s", log.String())
	}
	_, port, err := net.SplitHostPort(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest("GET", "http://127.0.0.1:"+port+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "desk.example"
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != 200 {
		t.Errorf("%d", answer.StatusCode)
	}
}

// No request makes the server fail, and none with a name for its host reads anything on loopback.
func FuzzMetricsRequest(f *testing.F) {
	f.Add("GET", "/metrics", "127.0.0.1:7119", int64(0))
	f.Add("GET", "/readyz", "[::1%25eth0]:7119", int64(0))
	f.Add("HEAD", "/healthz", "localhost", int64(-1))
	f.Add("POST", "/metrics", "rebound.example", int64(5))
	f.Add("GET", "/healthz", "[127.0.0.1.example", int64(0))
	s := &MetricsServer{guarded: true}
	s.at, s.text = time.Now().Add(1<<40), []byte("metrics")
	h := s.newHandler()
	f.Fuzz(func(t *testing.T, method, path, host string, length int64) {
		if path == "/readyz" {
			return // it asks a daemon
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, &http.Request{Method: method, URL: &url.URL{Path: path}, Host: host, ContentLength: length, Header: http.Header{}})
		read := w.Body.String() == "metrics" || w.Body.String() == "ok\n"
		named := strings.ContainsAny(strings.TrimSuffix(strings.ToLower(host), ":7119"), "ghijklmnopqrstuvwxyz") && !strings.HasPrefix(strings.ToLower(host), "localhost") && !strings.Contains(host, "%")
		if read && (named || method != "GET" || length != 0) {
			t.Errorf("%q %q for %q with %d bytes: %d %q", method, path, host, length, w.Code, w.Body)
		}
	})
}
