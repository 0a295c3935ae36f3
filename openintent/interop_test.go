//go:build interop

package openintent

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// python is the interpreter that `make interop` installs the SDK for.
func python(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../.interop/openintent/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the SDK is not installed: run make interop (%v)", err)
	}
	return path
}

// recording is what a client sent.
type recording struct {
	mu sync.Mutex
	knownIDs
	exchanges []exchange
}

func (r *recording) add(req *http.Request, body []byte, status int, answer []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := func(text string) string {
		for i, id := range r.ids {
			text = strings.ReplaceAll(text, id, fmt.Sprintf("$%d.", i+1))
		}
		return text
	}
	x := exchange{Key: req.Header.Get(headerAPIKey), Agent: req.Header.Get(headerAgent), Method: req.Method, Path: name(req.URL.RequestURI()),
		IfMatch: req.Header.Get("If-Match"), Status: status}
	if len(body) > 0 {
		x.Body = jsontext.Value(name(string(body)))
	}
	r.exchanges = append(r.exchanges, x)
	r.learn(answer)
}

func linesOf(t *testing.T, list []exchange) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, x := range list {
		line, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.Bytes()
}

// script runs a Python program from testdata against the engine and returns what
// the program sent.
func script(t *testing.T, name string) []exchange {
	t.Helper()
	h := start(t)
	defer h.run()()
	handler := h.handler(sdkKeys())
	var rec recording
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if strings.HasSuffix(r.URL.Path, "/subscribe") {
			handler.ServeHTTP(w, r)
			return
		}
		answered := httptest.NewRecorder()
		handler.ServeHTTP(answered, r)
		rec.add(r, body, answered.Code, answered.Body.Bytes())
		for k, v := range answered.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(answered.Code)
		w.Write(answered.Body.Bytes())
	}))
	defer s.Close()
	out, err := exec.Command(python(t), filepath.Join("testdata", name), s.URL).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	t.Logf("%s", out)
	return rec.exchanges
}

// What the published SDK sends one thing after the other is what testdata holds,
// so that it is replayed everywhere. UPDATE=1 writes it anew.
func TestSDKVectors(t *testing.T) {
	got := script(t, "sdk.py")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(vectors, linesOf(t, got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(vectors)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(linesOf(t, got))); diff != "" {
		t.Errorf("the SDK sends other requests than recorded (-recorded +sent):\n%s", diff)
	}
}

// Concurrent asks, in threads and in asyncio, and streams.
func TestSDKConcurrently(t *testing.T) { script(t, "sdk_asks.py") }

// A real linter reads the description.
func TestOpenAPIByALinter(t *testing.T) {
	h := start(t)
	path := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(path, h.as("").get("/openapi.json").ok(200).raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(python(t), "-m", "openapi_spec_validator", path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
