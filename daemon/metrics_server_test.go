package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// dialMetrics connects to the metrics server.
func (d *running) dialMetrics() net.Conn {
	d.t.Helper()
	c, err := net.Dial("tcp", d.metrics.listener.Addr().String())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(await.Patience))
	return c
}

// askMetrics writes a request as it is, and returns the answer's status.
func (d *running) askMetrics(request string) int {
	d.t.Helper()
	c := d.dialMetrics()
	if _, err := io.WriteString(c, request); err != nil {
		d.t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		d.t.Fatalf("%.80q: %v", request, err)
	}
	answer.Body.Close()
	if answer.Header.Get("Access-Control-Allow-Origin") != "" {
		d.t.Error("a page of another origin may read it")
	}
	return answer.StatusCode
}

// Nothing but short reads by somebody who knows the address is served.
func TestMetricsRefuseRequests(t *testing.T) {
	t.Parallel()
	desk, _ := measuredPair(t, "")
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
		if got := desk.askMetrics(request); got != want {
			t.Errorf("%.80q: %d, want %d", request, got, want)
		}
	}
}

// Clients that say nothing, and ones that read nothing, hold only so many places, and keep nobody
// else out for longer than their time.
func TestSlowScrapersAreBounded(t *testing.T) {
	t.Parallel()
	desk, _ := measuredPair(t, "")
	for range maxMetricsConns {
		io.WriteString(desk.dialMetrics(), "GET /metrics HTTP/1.1\r\n")
	}
	if answer, _ := desk.get("/healthz"); answer.StatusCode != 200 {
		t.Errorf("healthz: %d", answer.StatusCode)
	}
	for range 2 * maxMetricsConns {
		c := desk.dialMetrics()
		for range 8 {
			io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		}
	}
	if answer, _ := desk.get("/readyz"); answer.StatusCode != 200 {
		t.Errorf("readyz: %d", answer.StatusCode)
	}
}

// Many scrapes at a time get one text.
func TestManyScrapesCostOne(t *testing.T) {
	t.Parallel()
	desk, _ := measuredPair(t, "")
	s := desk.metrics
	var all sync.WaitGroup
	begun := time.Now()
	texts := make([][]byte, 32)
	for i := range texts {
		all.Go(func() { texts[i] = s.takeText() })
	}
	all.Wait()
	seconds := int(time.Since(begun)/time.Second) + 1
	for range texts {
		s.returnText()
	}
	made := make(map[*byte]bool)
	for _, text := range texts {
		made[&text[0]] = true
	}
	if len(made) > seconds {
		t.Errorf("%d scrapes made %d texts in %d seconds", len(texts), len(made), seconds)
	}
}

// A text that is being read does not change, and one that nobody reads is written over.
func TestATextStaysWhileItIsRead(t *testing.T) {
	t.Parallel()
	desk, _ := measuredPair(t, "")
	s := desk.metrics
	first := s.takeText()
	was := string(first)
	s.at = time.Time{}
	second := s.takeText()
	if string(first) != was || &first[0] == &second[0] {
		t.Error("a text changes while it is read")
	}
	s.returnText()
	s.returnText()
	if s.readers != 0 {
		t.Errorf("%d read", s.readers)
	}
	s.at = time.Time{}
	if third := s.takeText(); len(third) <= cap(second) && &third[0] != &second[0] {
		t.Error("each scrape takes new memory")
	}
	s.returnText()
}

// A daemon that is not ready says why in one line.
func TestReadinessSaysWhy(t *testing.T) {
	t.Parallel()
	desk, _ := measuredPair(t, "")
	if err := os.Remove(desk.home.ownerSocketPath()); err != nil {
		t.Fatal(err)
	}
	answer, body := desk.get("/readyz")
	if answer.StatusCode != 503 || !strings.HasPrefix(body, "not ready: ") || strings.Count(body, "\n") != 1 {
		t.Errorf("%d %q", answer.StatusCode, body)
	}
	if answer, _ := desk.get("/healthz"); answer.StatusCode != 200 {
		t.Errorf("healthz: %d", answer.StatusCode)
	}
	desk.countsTo("acpd_ready", 0)
}

// Metrics may be served on a unix socket, for the daemon's user alone.
func TestMetricsOnASocket(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	path := filepath.Join(dir, "metrics.sock")
	writeConfig(t, dir, fmt.Sprintf("metrics: {listen: %q}\n", path))
	desk := start(t, dir, "desk")
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
	other := stateDir(t)
	writeConfig(t, other, fmt.Sprintf("metrics: {listen: %q}\n", path))
	if _, err := OpenDaemon(t.Context(), Options{Home: other, Listen: "127.0.0.1:0", NoMDNS: true}); err == nil || !strings.Contains(err.Error(), "another program serves") {
		t.Errorf("a path that is taken: %v", err)
	}
	writeConfig(t, other, fmt.Sprintf("metrics: {listen: %q}\n", filepath.Join(dir, "config.yaml")))
	if _, err := OpenDaemon(t.Context(), Options{Home: other, Listen: "127.0.0.1:0", NoMDNS: true}); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("a path of a file: %v", err)
	}
	desk.stop()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// What is listened on for others is said in the log; there the name of the host does not matter.
func TestExposedMetricsAreWarnedOf(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	writeConfig(t, dir, "metrics: {listen: \"0.0.0.0:0\", expose: true}\n")
	var log await.Output
	desk := startWith(t, Options{Home: dir, Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, Log: &log})
	if !strings.Contains(log.String(), "other machines can read the metrics") {
		t.Errorf("the log: %s", log.String())
	}
	_, port, err := net.SplitHostPort(desk.metrics.listener.Addr().String())
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
	s := &metricsServer{guarded: true}
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

func BenchmarkScrape(b *testing.B) {
	dir := stateDir(b)
	writeConfig(b, dir, "metrics: {listen: \":0\"}\n")
	s := start(b, dir, "desk").metrics
	b.ReportAllocs()
	for b.Loop() {
		s.at = time.Time{}
		s.takeText()
		s.returnText()
	}
}

// What counting one call costs a daemon.
func BenchmarkCountCall(b *testing.B) {
	m := newMeasures(false)
	row, _ := kinds.FindKind(kinds.KindQuery)
	p := &peer.Passing{Checked: kinds.Checked{Envelope: &wire.Envelope{Kind: kinds.KindQuery}, Spec: row}, Inbound: true, Began: time.Now()}
	for b.Loop() {
		m.Ended(p)
	}
}
