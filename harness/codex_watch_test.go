package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
)

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

func expectPresence(t *testing.T, said <-chan Presence, unwakeable, asks string) {
	t.Helper()
	p := await.Receive(t, "what the session says", said)
	is := p.Unwakeable == nil && unwakeable == "" || p.Unwakeable != nil && unwakeable != "" && strings.Contains(p.Unwakeable.Error(), unwakeable)
	if !is || p.Asks != asks {
		t.Errorf("%+v, want unwakeable for %q, asking %q", p, unwakeable, asks)
	}
}

// setStatus sets what the own thread does, and tells it to all clients.
func (f *fakeCodex) setStatus(kind string, flags ...string) {
	f.change(func() { f.threads[1].Status = codexStatus{kind, flags} })
	f.tell(`{"method":"thread/status/changed","params":{"threadId":"` + ownThread + `","status":` + f.marshal(&f.threads[1].Status) + `}}`)
}

func (f *fakeCodex) post(s Session) error {
	p := newPost()
	f.change(func() { f.after["turn/start"] = proof(ownThread, p.Message.String()) })
	_, err := s.Post(f.t.Context(), p)
	return err
}

// A session says that its terminal is closed, and is not woken, also if nobody has to be asked in it. If
// Codex does not say which terminal is the thread's, that means nothing.
func TestCodexTerminalIsClosed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := newFakeCodex(t)
	f.terminal = "http://" + listener.Addr().String()
	s := f.mustFind()
	said := f.watch(s)
	expectPresence(t, said, "", "")
	if err := f.post(s); err != nil {
		t.Errorf("an open terminal: %v", err)
	}
	listener.Close()
	f.setStatus(statusIdle)
	expectPresence(t, said, "its terminal is closed", "")
	p := newPost()
	p.Unattended = true
	if _, err := s.Post(t.Context(), p); !errors.Is(err, ErrUnattended) || !strings.Contains(err.Error(), "its terminal is closed") || len(f.list("turn/start")) != 1 {
		t.Errorf("Post: %v", err)
	}
	stays := f.mustFind().(*codex)
	stays.unloadTime = 0
	if err := f.post(stays); err != nil {
		t.Errorf("a thread that stays loaded, for another terminal: %v", err)
	}
	for name, change := range map[string]func(){
		"no terminal is named":   func() { f.terminal = "" },
		"no address of its kind": func() { f.terminal = "http://192.0.2.1:4000" },
		"no address":             func() { f.terminal = "\x00" },
		"no port":                func() { f.terminal = "http://127.0.0.1" },
		"no such method":         func() { f.refuse["mcpServerStatus/list"] = refuseWith("unknown variant") },
	} {
		at := f.terminal
		c := s.(*codex)
		c.mu.Lock()
		c.closedAt = time.Now().Add(-2 * unloadTime)
		c.mu.Unlock()
		f.change(change)
		if err := f.post(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		f.change(func() { f.terminal = at; delete(f.refuse, "mcpServerStatus/list") })
		if err := f.post(s); !errors.Is(err, ErrUnattended) {
			t.Errorf("closed again, after: %s: %v", name, err)
		}
	}
}

// A turn that a post has begun, and in which the user is asked, is ended when nobody waits for it any more,
// or when the user was asked for long. In the latter case its sender is told. The user's own turns stay, and so
// do those in which the user has said something, or may have.
// holds: security.md#agents-on-this-machine
func TestCodexAsksItsUser(t *testing.T) {
	say := func(item testMap) func(*fakeCodex) {
		return func(f *fakeCodex) { f.said = append(f.said, item) }
	}
	turns := func(field string, value any) func(*fakeCodex) {
		return func(f *fakeCodex) {
			f.rewrite = func(method string, result testMap) {
				if method == "thread/turns/list" {
					setField(result["data"].([]any)[0].(testMap), field, value)
				}
			}
		}
	}
	const unread = "what was said in it cannot be read, so acpd does not interrupt it: answer Codex in its terminal"
	for name, row := range map[string]struct {
		posted, late, abandoned, long, ends bool

		flag       string           // of the thread while the user is asked; "": before a tool runs
		lost       bool             // the answer to turn/start
		change     func(*fakeCodex) // after the post
		unwakeable string           // while the user is asked
	}{
		"the user's own turn":  {abandoned: true, long: true},
		"somebody waits":       {posted: true},
		"nobody waits":         {posted: true, abandoned: true, ends: true},
		"it begins late":       {posted: true, late: true, abandoned: true, ends: true},
		"the user takes long":  {posted: true, long: true, ends: true},
		"nobody waits, and so": {posted: true, abandoned: true, long: true, ends: true},

		"the model asks":          {flag: "waitingOnUserInput", posted: true, abandoned: true, ends: true},
		"the model asks too long": {flag: "waitingOnUserInput", posted: true, long: true, ends: true},
		"the model asks its user": {flag: "waitingOnUserInput", posted: true, abandoned: true, change: say(testMap{"type": "userMessage", "clientId": "the terminal's"})},

		"the answer is lost":           {posted: true, lost: true, abandoned: true, ends: true},
		"the model has spoken":         {posted: true, abandoned: true, ends: true, change: say(testMap{"type": "agentMessage", "text": "one moment"})},
		"the user has spoken":          {posted: true, abandoned: true, change: say(testMap{"type": "userMessage", "clientId": "the terminal's"})},
		"the user has spoken, unnamed": {posted: true, abandoned: true, change: say(testMap{"type": "userMessage", "clientId": nil})},
		"the user's turn came first":   {posted: true, abandoned: true, change: func(f *fakeCodex) { f.said = []testMap{{"type": "userMessage", "clientId": "the terminal's"}} }},
		"nobody has spoken":            {posted: true, abandoned: true, change: func(f *fakeCodex) { f.said = []testMap{} }},
		"only a summary":               {posted: true, abandoned: true, change: turns("itemsView", "summary"), unwakeable: unread},
		"no view":                      {posted: true, abandoned: true, change: turns("itemsView", absent), unwakeable: unread},
		"items of another type":        {posted: true, abandoned: true, change: turns("items", "none"), unwakeable: unread},
		"items are refused":            {posted: true, abandoned: true, change: func(f *fakeCodex) { f.refuse["thread/turns/list"] = refuseWith("list_turns is not supported yet") }, unwakeable: unread},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeCodex(t)
			s := f.mustFind().(*codex)
			if s.approvalTime = time.Hour; row.long {
				s.approvalTime = 0
			}
			said := f.watch(s)
			expectPresence(t, said, "", "")
			var abandoned, told atomic.Bool
			var seen atomic.Int64
			if row.posted {
				p := newPost()
				p.Untrusted = "what a peer wrote"
				p.Abandoned = func() bool { seen.Add(1); return abandoned.Load() }
				p.Unanswered = func(program string) { told.Store(program == "Codex") }
				f.change(func() { f.after["turn/start"] = proof(ownThread, p.Message.String()) })
				if row.lost {
					f.change(func() { f.after["turn/start"], f.hangsUp = "", "turn/start" })
				}
				if posted, err := s.Post(t.Context(), p); row.lost != errors.Is(err, ErrGone) || posted.Proven == row.lost {
					t.Fatalf("Post: %+v, %v", posted, err)
				}
			}
			if row.change != nil {
				f.change(func() { row.change(f) })
			}
			if looks := len(f.list("thread/read")); row.late { // Codex has said that the turn begins, and the thread seems idle
				f.setStatus(statusIdle)
				await.Until(t, "a look at an idle thread", func() bool { return len(f.list("thread/read")) > looks })
			}
			abandoned.Store(row.abandoned)
			f.setStatus(statusActive, cmp.Or(row.flag, "waitingOnApproval"))
			expectPresence(t, said, row.unwakeable, "Codex")
			if row.ends {
				await.Until(t, "the turn is ended", func() bool { return len(f.list("turn/interrupt")) == 1 && told.Load() == !row.abandoned })
				if got := string(f.list("turn/interrupt")[0].Params); got != `{"threadId":"019a-own","turnId":"t1"}` && got != `{"turnId":"t1","threadId":"019a-own"}` {
					t.Errorf("turn/interrupt %s", got)
				}
			} else if row.posted {
				await.Until(t, "the turn is looked at", func() bool { return seen.Load() > 0 })
			}
			f.setStatus(statusActive)
			expectPresence(t, said, "", "")
			if n := len(f.list("turn/interrupt")); !row.ends && n > 0 {
				t.Errorf("%d turns are ended", n)
			}
			f.setStatus(statusIdle)
			abandoned.Store(true)
			f.setStatus(statusActive, "waitingOnApproval") // perhaps before it was seen idle
			if p := await.Receive(t, "what the session says", said); p.Asks != "Codex" {
				t.Errorf("%+v, want that Codex asks", p)
			}
			if n := len(f.list("turn/interrupt")); (!row.posted || row.change != nil && !row.ends) && n > 0 {
				t.Errorf("%d turns of the user's are ended", n)
			}
			f.change(func() {
				if len(f.stray) != 0 {
					t.Errorf("a request of the server is answered: %q", f.stray)
				}
			})
		})
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
			f.threads = append([]codexThread{fakeThread("019a-other")}, f.threads...)
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
				expectPresence(t, said, "several threads in this directory", "")
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
	expectPresence(t, said, ErrGone.Error(), "")
	expectPresence(t, said, "", "")
	s.Close()
	s.(Watcher).Watch(t.Context(), func(Presence) { t.Error("a closed session says something") })
}

// A turn that cannot be read is not fetched every second: it may be long, and each fetch may end the connection.
func TestCodexTurnThatCannotBeReadIsFetchedSeldom(t *testing.T) {
	f := newFakeCodex(t)
	f.hangsUp = "thread/turns/list" // as when its answer is too long
	c := f.mustFind().(*codex)
	p := newPost()
	p.Abandoned = func() bool { return true }
	turn := &codexTurn{thread: ownThread, post: &p}
	for range 2 {
		conn, err := c.connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if pause, err := c.limitAsking(t.Context(), conn, turn); pause != quietPause || !errors.Is(err, ErrBusy) {
			t.Errorf("%v, %v", pause, err)
		}
		conn.close()
	}
	if n := len(f.list("thread/turns/list")); n != 1 {
		t.Errorf("it was fetched %d times", n)
	}
}
