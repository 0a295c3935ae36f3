package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/acpd/acpd/integration/await"
)

// fakeOpenCode is an OpenCode that is not there.
type fakeOpenCode struct {
	t      *testing.T
	server *httptest.Server
	port   int

	mu       sync.Mutex // guards what follows
	busy     string     // what /session/status answers
	sessions string     // what /session answers
	parents  map[string]string
	status   int // of the answers, unless 0
	posts    []string
	listens  bool
	open     bool   // it asks for no password
	page     bool   // prompts are answered with a page
	lose     bool   // the next answers to prompts, and what was asked is done
	agents   string // what /agent answers
	rules    string // of a session
	unknown  string // what a prompt to a session that is not there is answered with
}

func newFakeOpenCode(t *testing.T) *fakeOpenCode {
	f := &fakeOpenCode{
		t: t, busy: `{}`, agents: `[]`, rules: `[]`, unknown: `{"name":"NotFoundError","data":{"message":"Session not found"}}`, listens: true, parents: map[string]string{"ses_child": "ses_1"},
		sessions: `[{"id":"ses_1","directory":"/work","time":{"updated":2}},{"id":"ses_child","parentID":"ses_1","directory":"/work","time":{"updated":9}},{"id":"ses_x","directory":"/elsewhere","time":{"updated":9}}]`,
	}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	f.port = f.server.Listener.Addr().(*net.TCPAddr).Port
	return f
}

func (f *fakeOpenCode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	user, password, _ := r.BasicAuth()
	switch {
	case !f.open && (user != "opencode" || password != "s3cret"):
		w.WriteHeader(http.StatusUnauthorized)
	case f.status != 0:
		w.Header().Set("Location", "http://127.0.0.1:1/")
		w.WriteHeader(f.status)
	case r.URL.Path == "/session/status":
		io.WriteString(w, f.busy)
	case r.URL.Path == "/session":
		io.WriteString(w, f.sessions)
	case r.URL.Path == "/agent":
		io.WriteString(w, f.agents)
	case r.URL.Path == "/session/"+noSession+"/prompt_async":
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, f.unknown)
	case f.page && strings.HasSuffix(r.URL.Path, "/prompt_async"):
		io.WriteString(w, "<!doctype html><title>OpenCode</title>")
	case strings.HasSuffix(r.URL.Path, "/prompt_async"):
		body, _ := io.ReadAll(r.Body)
		f.posts = append(f.posts, r.URL.Path+" "+string(body))
		if f.lose {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		id := strings.TrimPrefix(r.URL.Path, "/session/")
		fmt.Fprintf(w, `{"id":%q,"parentID":%q,"directory":"/work","permission":%s}`, id, f.parents[id], f.rules)
	}
}

func (f *fakeOpenCode) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeOpenCode) find(password string) (*opencode, error) {
	ps := newFamily()
	ps.portsOf = func(pid int) ([]int, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if pid != parentPID || !f.listens {
			return nil, nil
		}
		return []int{f.port}, nil
	}
	s, err := findOpenCode(f.t.Context(), &Environment{Client: "opencode", Version: "1.18.33", Dir: "/work", Getenv: func(name string) string {
		return map[string]string{"OPENCODE_SERVER_PASSWORD": password}[name]
	}}, ps)
	if err != nil {
		return nil, err
	}
	f.t.Cleanup(func() { s.Close() })
	return s.(*opencode), nil
}

func (f *fakeOpenCode) mustFind() *opencode {
	f.t.Helper()
	s, err := f.find("s3cret")
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func TestOpenCodeIsWoken(t *testing.T) {
	f := newFakeOpenCode(t)
	s := f.mustFind()
	post := func(want error, to string) {
		t.Helper()
		p := newPost()
		p.Untrusted, p.Unattended = "what a peer wrote", true
		f.change(func() { f.posts = nil })
		posted, err := s.Post(t.Context(), p)
		if !errors.Is(err, want) || posted.Proven {
			t.Errorf("Post: %+v, %v, want %v", posted, err, want)
		}
		f.change(func() {
			if want != nil && len(f.posts) == 0 {
				return
			}
			if line := "/session/" + to + `/prompt_async {"parts":[{"text":"` + p.Pointer + `","type":"text"}]}`; len(f.posts) != 1 || want != nil {
				t.Errorf("posts %q, want %q", f.posts, line)
			} else if got := f.posts[0]; !strings.HasPrefix(got, "/session/"+to+"/") || !strings.Contains(got, p.Pointer) || strings.Contains(got, "peer wrote") {
				t.Errorf("posts %q, want %q", got, line)
			}
		})
	}
	post(nil, "ses_1") // the only one here that no other has begun
	f.change(func() { f.sessions = strings.Replace(f.sessions, "/elsewhere", "/work", 1) })
	post(ErrNoThread, "")
	call := func(busy, want string) {
		t.Helper()
		f.change(func() { f.busy = busy })
		s.NoteCall(nil)
		var got string
		await.Until(t, "OpenCode has said who called", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			got = s.session
			return !s.asking
		})
		if got != want {
			t.Errorf("busy %s: it is %q that called, want %q", busy, got, want)
		}
	}
	call(`{"ses_child":{"type":"busy"},"ses_x":{"type":"busy"}}`, "")
	call(`{"ses_child":{"type":"busy"},"ses_1":{"type":"busy"}}`, "ses_1")
	call(`{}`, "ses_x") // which changed last
	call(`garbage`, "ses_x")
	post(nil, "ses_x")
	for status, want := range map[int]error{404: ErrNoThread, 401: ErrRefused, 500: ErrRefused, 302: ErrRefused} {
		f.change(func() { f.status = status })
		post(want, "")
	}
	f.change(func() { f.status, f.listens = 0, false })
	post(ErrGone, "")
	if _, err := s.Post(t.Context(), newPost()); !errors.Is(err, ErrUnattended) {
		t.Errorf("Post: %v", err)
	}
	f.change(func() { f.listens, f.page = true, true })
	post(ErrRefused, "")
	s.Close()
	s.NoteCall(nil)
	p := newPost()
	p.Unattended = true
	if _, err := s.Post(t.Context(), p); err == nil {
		t.Error("posts after Close")
	}
}

// holds: security.md#agents-on-this-machine
func TestOpenCodeIsFound(t *testing.T) {
	f := newFakeOpenCode(t)
	if _, err := f.find("wrong"); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "401") {
		t.Errorf("with a wrong password: %v", err)
	}
	for _, password := range []string{"", "s3cret"} { // in our environment
		f.change(func() { f.open = true })
		if _, err := f.find(password); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "OPENCODE_SERVER_PASSWORD") {
			t.Errorf("with a port that asks for no password, and the password %q: %v", password, err)
		}
		f.change(func() { f.status = 500 })
		if _, err := f.find(password); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "500") {
			t.Errorf("with a server that is broken: %v", err)
		}
		f.change(func() { f.open, f.status = false, 0 })
	}
	f.change(func() { f.listens = false })
	if _, err := f.find("s3cret"); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "--port") {
		t.Errorf("without a port: %v", err)
	}
}

// A prompt whose answer was lost may have been taken.
func TestOpenCodeLosesAnAnswer(t *testing.T) {
	f := newFakeOpenCode(t)
	s := f.mustFind()
	p := newPost()
	p.Unattended = true
	f.change(func() { f.lose = true })
	if _, err := s.Post(t.Context(), p); !errors.Is(err, ErrGone) {
		t.Errorf("a lost answer: %v", err)
	}
}

// A session's name is one part of a path, whatever stands in it, and too long an answer says so.
func TestOpenCodeAnswersOddly(t *testing.T) {
	f := newFakeOpenCode(t)
	o := f.mustFind()
	f.change(func() { f.sessions = `[{"id":"ses/1 %2F?x","directory":"/work"}]` })
	p := newPost()
	p.Unattended = true
	if _, err := o.Post(t.Context(), p); err != nil || len(f.posts) != 1 || !strings.HasPrefix(f.posts[0], "/session/ses/1 %2F?x/prompt_async ") {
		t.Errorf("Post: %v, %q", err, f.posts)
	}
	f.change(func() { f.sessions = `[` + strings.Repeat(" ", maxOpenCodeBody) + `]` })
	p = newPost()
	p.Unattended = true
	if _, err := o.Post(t.Context(), p); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "its answer to /session has over 4 MiB") {
		t.Errorf("Post: %v", err)
	}
}

func TestOpenCodeVersion(t *testing.T) {
	s, err := findOpenCode(t.Context(), &Environment{Client: "opencode", Version: "1.18.32", Getenv: func(string) string { return "" }}, newFamily())
	if e, ok := errors.AsType[*Error](err); s != nil || !ok || e.Err != ErrUnsupported || !strings.Contains(e.Saw, "needs 1.18.33 or later") {
		t.Errorf("%v, %v", s, err)
	}
}

// An OpenCode that does not answer is not waited for forever.
func TestOpenCodeIsSilent(t *testing.T) {
	t.Parallel()
	f := newFakeOpenCode(t)
	o := f.mustFind()
	f.mu.Lock() // which each answer needs
	o.processes.portsOf = func(int) ([]int, error) { return []int{f.port}, nil }
	if err := o.get(t.Context(), "/session", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("get: %v", err)
	}
	f.mu.Unlock()
}
