package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
)

// threadOf returns the id of a thread that was made so long ago.
func threadOf(ago time.Duration) string { return threadAt(time.Now().Add(-ago)) }

func threadAt(made time.Time) string {
	const v7 = "7000-8000-000000000000"
	ms := fmt.Sprintf("%012x", made.UnixMilli())
	return ms[:8] + "-" + ms[8:] + "-" + v7
}

// watch returns what a session says of itself, until the test ends.
func (f *fakeCodex) watch(s Session) <-chan Presence {
	f.t.Helper()
	said := make(chan Presence, 16)
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.(Watcher).Watch(ctx, func(p Presence) { said <- p })
	}()
	f.t.Cleanup(func() { cancel(); <-done })
	return said
}

func expectPresence(t *testing.T, said <-chan Presence, gone, unwakeable string) {
	t.Helper()
	p := await.Receive(t, "what the session says", said)
	is := func(err error, want string) bool {
		return err == nil && want == "" || err != nil && want != "" && strings.Contains(err.Error(), want)
	}
	if !is(p.Gone, gone) || !is(p.Unwakeable, unwakeable) {
		t.Errorf("%+v, want gone for %q, unwakeable for %q", p, gone, unwakeable)
	}
}

// start adds a thread that a terminal has started just now, and tells of it.
func (f *fakeCodex) start(thread codexThread, terminal string) {
	f.change(func() {
		f.threads = append(f.threads, thread)
		f.shows[thread.ID] = terminal
		f.terminal[terminal] = true
	})
	f.tell(fmt.Sprintf(`{"method":"thread/started","params":{"thread":{"id":%q,"cwd":%q,"ephemeral":%v,"status":{"type":"idle"}}}}`, thread.ID, thread.Dir, thread.Ephemeral))
}

func (f *fakeCodex) post(s Session) error {
	p := newPost()
	f.change(func() { f.after["turn/start"] = proof(ownThread, p.Message.String()) })
	_, err := s.Post(f.t.Context(), p)
	return err
}

// A thread without a turn is not joined, and not woken, until its first turn has ended.
func TestCodexHasHadNoTurn(t *testing.T) {
	f := newFakeCodex(t)
	f.refuse["thread/turns/list"] = `{"code":-32600,"message":"thread is not materialized yet"}`
	f.refuse["thread/resume"] = `{"code":-32600,"message":"no rollout found"}`
	s := f.mustFind()
	said := f.watch(s)
	const why = "its conversation has had no turn yet: say something to it once"
	expectPresence(t, said, "", why)
	if err := f.post(s); !errors.Is(err, ErrNoTurn) || !strings.HasSuffix(err.Error(), why) || len(f.list("turn/start")) > 0 {
		t.Errorf("Post: %v", err)
	}
	f.change(func() { clear(f.refuse) })
	f.tell(`{"method":"thread/status/changed","params":{"threadId":"` + ownThread + `","status":{"type":"idle"}}}`)
	expectPresence(t, said, "", "")
	if err := f.post(s); err != nil {
		t.Errorf("Post after the first turn: %v", err)
	}
}

// A thread is gone when its terminal has another one loaded, unless a turn runs in it. Threads that no
// terminal shows, and those of other terminals, change nothing.
func TestCodexTerminalShowsAnother(t *testing.T) {
	f := newFakeCodex(t)
	s := f.mustFind()
	said := f.watch(s)
	expectPresence(t, said, "", "")
	f.start(codexThread{ID: threadOf(0), Ephemeral: true, Dir: "/work"}, ownTerminal)
	f.start(codexThread{ID: threadOf(0), Parent: ownThread, Dir: "/work"}, ownTerminal)
	f.start(codexThread{ID: threadOf(0), Dir: "/work"}, "http://127.0.0.1:4001")
	s.NoteCall(map[string]any{"threadId": ownThread})
	if err := f.post(s); err != nil {
		t.Errorf("Post: %v", err)
	}
	f.change(func() { f.threads[1].Status.Type = "active" })
	shown := codexThread{ID: threadOf(0), Dir: "/elsewhere", Status: codexStatus{"idle"}}
	f.start(shown, ownTerminal)
	for { // what came before may have been seen between
		p := await.Receive(t, "what the session says", said)
		if p.Gone != nil {
			t.Fatalf("gone in the middle of a turn: %v", p.Gone)
		}
		if p.Unwakeable != nil && strings.Contains(p.Unwakeable.Error(), "its terminal shows another conversation") {
			break
		}
	}
	f.change(func() { f.threads[1].Status.Type = "idle" })
	f.tell(`{"method":"thread/status/changed","params":{"threadId":"` + ownThread + `","status":{"type":"idle"}}}`)
	expectPresence(t, said, "its terminal shows another conversation", "")
	if err := f.post(s); !errors.Is(err, ErrUnattended) {
		t.Errorf("Post: %v", err)
	}
	// When that thread is closed, its terminal is known to show none.
	f.change(func() { f.threads = slices.DeleteFunc(f.threads, func(t codexThread) bool { return t.ID == shown.ID }) })
	f.tell(`{"method":"thread/closed","params":{"threadId":"` + shown.ID + `"}}`)
	expectPresence(t, said, "", "")
}

// A thread is gone when its terminal has ended.
func TestCodexTerminalEnds(t *testing.T) {
	f := newFakeCodex(t)
	s := f.mustFind()
	said := f.watch(s)
	expectPresence(t, said, "", "")
	f.change(func() { f.terminal[ownTerminal] = false })
	expectPresence(t, said, "no terminal", "")
}

// A session that is not known to have had a terminal is not gone: whether it is attended is learned
// before each post.
func TestCodexWithoutATerminalIsNotGone(t *testing.T) {
	f := newFakeCodex(t)
	f.shows = nil
	s := f.mustFind()
	expectPresence(t, f.watch(s), "", "")
	if err := f.post(s); !errors.Is(err, ErrUnattended) || !strings.Contains(err.Error(), "no terminal has started its thread") {
		t.Errorf("Post: %v", err)
	}
}

// Among several threads in the directory, the own one is that whose acpctl hears a call which this one
// has the app-server make. Where it makes none, a tool call of the model's tells, and the session says so
// at once.
func TestCodexAsksWhichThreadItIs(t *testing.T) {
	for _, asked := range []bool{true, false} {
		t.Run(fmt.Sprint(asked), func(t *testing.T) {
			t.Parallel()
			f := newFakeCodex(t)
			f.threads = append([]codexThread{{ID: "019a-other", Dir: "/work", Status: codexStatus{"idle"}}}, f.threads...)
			s := f.mustFind()
			if asked {
				f.change(func() {
					f.called = func(thread string) {
						if thread == ownThread {
							s.NoteCall(map[string]any{"threadId": thread})
						}
					}
				})
			}
			said := f.watch(s)
			if !asked {
				expectPresence(t, said, "", "several threads in this directory")
				s.NoteCall(map[string]any{"threadId": ownThread})
			}
			expectPresence(t, said, "", "")
			if err := f.post(s); err != nil {
				t.Errorf("Post: %v", err)
			}
			for _, c := range f.list("mcpServer/tool/call") {
				if c.thread() == "019a-title" {
					t.Error("a hidden thread is asked")
				}
			}
		})
	}
}

// When the app-server hangs up, a session says that it does not answer, and looks again.
func TestCodexWatchIsRenewed(t *testing.T) {
	f := newFakeCodex(t)
	s := f.mustFind()
	said := f.watch(s)
	expectPresence(t, said, "", "")
	f.hangUp()
	expectPresence(t, said, "", ErrGone.Error())
	expectPresence(t, said, "", "")
	s.Close()
	s.(Watcher).Watch(t.Context(), func(Presence) { t.Error("a closed session says something") })
}

func TestCodexLoads(t *testing.T) {
	old, own, fresh := threadOf(time.Hour), threadOf(startMargin/2), threadOf(-time.Second)
	status := func(thread, kind string) *codexNotice {
		return &codexNotice{noticeStatus, codexNoticeParams{Thread: thread, Status: codexStatus{kind}}}
	}
	l := newCodexLoads()
	l.began = time.Now()
	expect := func(what, thread, own string, want bool) {
		t.Helper()
		if got := l.isLater(thread, own); got != want {
			t.Errorf("%s: later %v, want %v", what, got, want)
		}
	}
	for _, complete := range []bool{false, true} {
		if complete {
			l.begin([]string{old, own, fresh})
			l.begin(nil) // only the first counts
		}
		expect("made before", old, own, false)
		expect("made after", fresh, own, true)
		expect("made after, in a thread that was resumed", own, old, true)
		expect("made before, in a thread that was resumed", threadOf(time.Minute), old, complete)
		expect("no time is known", "x", own, true)
	}
	l.note(status(old, "active"))
	expect("a turn of what was loaded before", old, own, false)
	l.note(status(old, "notLoaded"))
	l.note(status(old, "idle"))
	expect("loaded again", old, own, true)
	l.note(status(own, "notLoaded"))
	l.note(&codexNotice{noticeStarted, codexNoticeParams{Started: codexThread{ID: own}}})
	expect("loaded before the own one was loaded again", old, own, false)
	l.note(&codexNotice{noticeClosed, codexNoticeParams{Thread: old}})
	l.note(status(old, "idle"))
	expect("loaded after that", old, own, true)
	for n := range 2 * maxLoads {
		l.note(status(fmt.Sprint(n), "idle"))
	}
	if len(l.at) > maxLoads {
		t.Errorf("%d are remembered", len(l.at))
	}
	expect("one that is not remembered", fmt.Sprint(2*maxLoads-1), own, true)
	l.end()
	expect("made before, when loads may be missed", old, own, false)
}

func TestParseLoopback(t *testing.T) {
	for text, want := range map[string]int{
		"http://127.0.0.1:4000": 4000, "http://127.0.0.1:4000/mcp": 4000, "": 0, "http://127.0.0.1": 0, "http://192.0.2.1:4000": 0, "http://127.0.0.1:x": 0, "\x00": 0,
	} {
		if port, err := parseLoopback(text); port != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d, %v", text, port, err)
		}
	}
}
