package harness

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
)

// The thread is that of the latest tool call; before the first, the only one in the directory.
func TestCodexThread(t *testing.T) {
	f := newFakeCodex(t)
	s := f.mustFind()
	try := func(wantThread string, wantErr error) {
		t.Helper()
		p := newPost()
		f.change(func() {
			f.calls = nil
			f.after["turn/start"] = proof(wantThread, p.Message.String())
		})
		_, err := s.Post(t.Context(), p)
		starts := f.list("turn/start")
		if !errors.Is(err, wantErr) || len(starts) > 0 != (wantErr == nil) || wantErr == nil && !strings.Contains(string(starts[0].Params), wantThread) {
			t.Errorf("%v, %+v, want %s, %v", err, starts, wantThread, wantErr)
		}
	}
	try(ownThread, nil)
	f.change(func() {
		f.threads = append(f.threads, codexThread{ID: "019a-elsewhere", Dir: "/elsewhere", Status: codexStatus{Type: "idle"}})
	})
	try(ownThread, nil)
	f.change(func() {
		f.threads = append(f.threads, fakeThread("019a-second"))
	})
	try("", ErrNoThread)
	s.NoteCall(map[string]any{"threadId": "019a-second"})
	try("019a-second", nil)
	for _, nothing := range []map[string]any{nil, {"threadId": 7}, {"threadId": ""}, {"threadId": strings.Repeat("x", 65)}} {
		s.NoteCall(nothing)
	}
	try("019a-second", nil)
	s.NoteCall(map[string]any{"threadId": "019a-title"}) // hidden: nobody sees it
	try("", ErrNoThread)
	s.NoteCall(map[string]any{"threadId": ownThread})
	f.change(func() { f.threads[1].Status.Type = "notLoaded" })
	try("", ErrGone)
	f.change(func() { f.threads = f.threads[:1] })
	s = f.mustFind()
	try("", ErrNoThread)
	f.change(func() {
		for i := range maxLoadedThreads {
			f.threads = append(f.threads, codexThread{ID: fmt.Sprint(i), Dir: "/elsewhere"})
		}
	})
	if try("", ErrNoThread); len(f.list("thread/read")) != 0 {
		t.Error("more threads are read than may be")
	}
}

// A thread that is in no state of those that are known when it is joined is not woken, and not asked again and again.
func TestCodexIsInAnUnknownState(t *testing.T) {
	f := newFakeCodex(t)
	f.rewrite = func(method string, result testMap) {
		if method == "thread/resume" {
			result["thread"].(testMap)["status"] = testMap{"type": "compacting"}
		}
	}
	if _, err := f.mustFind().Post(await.NewContext(t), newPost()); !errors.Is(err, ErrGone) || len(f.list("thread/resume")) != 1 || len(f.list("turn/start")) != 0 {
		t.Errorf("Post: %v, joined %d times", err, len(f.list("thread/resume")))
	}
}

// A thread that is broken, or whose acpctl is slow, keeps nobody from finding his own. Nobody guesses which it is,
// though, as long as the directory of one is not known.
func TestCodexThreadIsFoundPastOthers(t *testing.T) {
	for name, test := range map[string]struct {
		fault string
		own   bool // the own thread is asked, and says so
		want  error
	}{
		"refused": {"thread/read", true, nil}, "silent": {"mcpServer/tool/call", true, nil}, "refused, not asked": {"thread/read", false, ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeCodex(t)
			f.threads = append([]codexThread{fakeThread("019a-ill")}, f.threads...)
			s := f.mustFind()
			if test.fault == "mcpServer/tool/call" {
				s.(*codex).callTime = 500 * time.Millisecond
			}
			f.change(func() {
				f.faulty = testMap{"019a-ill": test.fault}
				f.called = func(thread string) {
					if test.own && thread == ownThread {
						s.NoteCall(map[string]any{"threadId": thread})
					}
				}
			})
			if err := f.post(s); !errors.Is(err, test.want) || (len(f.list("turn/start")) == 1) != (test.want == nil) {
				t.Errorf("Post: %v, want %v", err, test.want)
			}
		})
	}
}
