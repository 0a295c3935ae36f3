package harness

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/integration/await"
)

func TestCodexIsWoken(t *testing.T) {
	f := newFakeCodex(t)
	s := f.mustFind()
	if name, version := s.Harness(); name != "codex" || version != "0.169.0" {
		t.Errorf("Harness: %s %s", name, version)
	}
	p := newPost()
	p.Untrusted, p.Given = "what a peer wrote", "1 message from desk comes with this line."
	id := p.Message.String()
	f.change(func() {
		// A delta, a request to the client, another client's message, and then the proof.
		f.after["turn/start"] = `{"method":"item/agentMessage/delta","params":{"delta":"x"}}` + "\n" +
			`{"method":"item/commandExecution/requestApproval","id":7,"params":{"threadId":"` + ownThread + `"}}` + "\n" +
			proof(ownThread, "another") + proof("019a-other", id) + proof(ownThread, id)
	})
	posted, err := s.Post(t.Context(), p)
	if err != nil || !posted.Proven {
		t.Fatalf("Post: %+v, %v", posted, err)
	}
	starts := f.list("turn/start")
	if len(starts) != 1 {
		t.Fatalf("%d turns", len(starts))
	}
	var got, want any
	json.Unmarshal(starts[0].Params, &got)
	json.Unmarshal([]byte(`{"threadId":"`+ownThread+`","clientUserMessageId":"`+id+`","turnTrigger":"acpd","input":[{"type":"text","text":"`+p.Given+`"}],
		"additionalContext":{"`+id+`":{"kind":"untrusted","name":"acp_message","value":"what a peer wrote"}}}`), &want)
	if !jsonEqual(t, got, want) {
		t.Errorf("turn/start %s", starts[0].Params)
	}
	f.change(func() {
		if len(f.stray) != 0 {
			t.Errorf("a request of the server is answered: %q", f.stray)
		}
	})
}

func jsonEqual(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a, json.Deterministic(true))
	y, err2 := json.Marshal(b, json.Deterministic(true))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return string(x) == string(y)
}

// Without a proof within proofTime, or without anything to prove, nothing is proven.
func TestCodexProvesNothing(t *testing.T) {
	t.Parallel()
	f := newFakeCodex(t)
	s := f.mustFind()
	for _, row := range []struct {
		what, untrusted string
		come            func(own string) // what the app-server says
		proven          bool
	}{
		{"a pointer alone", "", func(own string) { f.after["turn/start"] = own }, false},
		{"what came before the turn, and then silence", "text", func(own string) { f.before["thread/resume"] = own }, false},
		{"another's message, and one in another thread", "text", func(own string) {
			f.after["turn/start"] = proof(ownThread, "another") + strings.ReplaceAll(own, ownThread, "019a-other")
		}, false},
		{"a proof before the answer", "text", func(own string) { f.before["turn/start"], f.after["turn/start"] = own, own }, true},
	} {
		p := newPost()
		p.Untrusted = row.untrusted
		f.change(func() {
			clear(f.before)
			clear(f.after)
			row.come(proof(ownThread, p.Message.String()))
		})
		if posted, err := s.Post(t.Context(), p); err != nil || posted.Proven != row.proven {
			t.Errorf("%s: %+v, %v", row.what, posted, err)
		}
	}
}

func TestCodexIsBusy(t *testing.T) {
	f := newFakeCodex(t)
	s := f.mustFind()
	f.change(func() { f.threads[1].Status.Type = "active" })
	for patience := 50 * time.Millisecond; ; patience *= 4 { // a slow machine may need more before it waits
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := s.Post(ctx, newPost())
		cancel()
		if !errors.Is(err, ErrBusy) && patience < 10*time.Second {
			continue
		}
		if !errors.Is(err, ErrBusy) || len(f.list("turn/start")) != 0 {
			t.Errorf("Post to a thread that stays busy: %v", err)
		}
		break
	}
	p := newPost()
	f.change(func() {
		f.after["turn/start"] = proof(ownThread, p.Message.String())
		f.calls = nil
	})
	done := postSoon(t, s, p)
	for len(f.list("thread/read")) < 3 { // two to find the thread, one for its status
		time.Sleep(time.Millisecond)
	}
	f.tell(`{"method":"thread/status/changed","params":{"threadId":"019a-other","status":{"type":"idle"}}}`)
	f.tell(`{"method":"thread/status/changed","params":{"threadId":"` + ownThread + `","status":{"type":"active","activeFlags":["waitingOnApproval"]}}}`)
	select {
	case err := <-done:
		t.Fatalf("posted into a turn: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	f.change(func() { f.threads[1].Status.Type = "idle" })
	f.tell(`{"method":"thread/status/changed","params":{"threadId":"` + ownThread + `","status":{"type":"idle"}}}`)
	if err := <-done; err != nil || len(f.list("turn/start")) != 1 {
		t.Errorf("Post when the turn has ended: %v", err)
	}
}

// A turn that begins while the thread is looked at is not steered.
func TestCodexBecomesBusy(t *testing.T) {
	f := newFakeCodex(t)
	s := f.mustFind()
	p := newPost()
	f.change(func() {
		f.after["turn/start"] = proof(ownThread, p.Message.String())
		f.resumed = func() { f.threads[1].Status.Type = "active" }
		f.rewrite = func(method string, _ testMap) {
			if method == "turn/start" && f.threads[1].Status.Type == "active" {
				t.Error("posted into a turn")
			}
		}
	})
	done := postSoon(t, s, p)
	await.Until(t, "the thread is looked at", func() bool { return len(f.list("thread/resume")) > 0 })
	f.change(func() { f.threads[1].Status.Type, f.resumed = "idle", nil })
	f.tell(`{"method":"thread/status/changed","params":{"threadId":"` + ownThread + `","status":{"type":"idle"}}}`)
	if err := <-done; err != nil || len(f.list("turn/start")) != 1 {
		t.Errorf("Post when the turn has ended: %v", err)
	}
}

// The answer to a call is taken also if the connection has ended when the caller looks.
func TestCodexAnswerGoesFirst(t *testing.T) {
	f := newFakeCodex(t)
	stream, err := net.Dial("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := newCodexConn(t.Context(), stream, await.Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.close()
	ended := make(chan struct{})
	close(ended)
	for range 20 {
		half := &codexConn{socket: conn.socket, limit: await.Patience, ended: ended, calls: make(map[uint64]chan<- codexMessage)}
		if err := half.call(t.Context(), "thread/read", answered{half}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// answered are params of a call that is answered before it is sent.
type answered struct{ conn *codexConn }

func (a answered) MarshalJSON() ([]byte, error) {
	return []byte("{}"), a.conn.take([]byte(`{"id":1,"result":{}}`))
}

// An app-server that does not answer a call is not waited for forever.
func TestCodexIsSilent(t *testing.T) {
	t.Parallel()
	f := newFakeCodex(t)
	f.silent["initialize"] = true
	if _, err := f.find(); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "initialize") {
		t.Errorf("find: %v", err)
	}
}

// A thread is looked at again although no notification says that its turn has ended.
func TestCodexIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, conn := &codex{lifetime: newLifetime()}, &codexConn{notices: make(chan codexNotice, 1)}
		conn.notices <- codexNotice{noticeStatus, codexNoticeParams{Thread: ownThread, Status: codexStatus{Type: "active"}}}
		began := time.Now()
		if err := c.awaitChange(t.Context(), conn, ownThread); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != askAgain {
			t.Errorf("after %s, want %s", took, askAgain)
		}
	})
}

// A connection that has ended before the turn begins is seen, nothing is posted, and the same
// message may be posted later.
func TestCodexEndsBeforeTheTurn(t *testing.T) {
	f := newFakeCodex(t)
	s := f.mustFind()
	f.change(func() {
		f.resumed = func() {
			f.resumed = nil
			go f.hangUp()
		}
		f.silent["thread/resume"] = true
	})
	p := newPost()
	if _, err := s.Post(t.Context(), p); !errors.Is(err, ErrGone) || len(f.list("turn/start")) != 0 {
		t.Errorf("Post: %v", err)
	}
	f.change(func() { f.silent["thread/resume"], f.after["turn/start"] = false, proof(ownThread, p.Message.String()) })
	if _, err := s.Post(t.Context(), p); err != nil || len(f.list("turn/start")) != 1 {
		t.Errorf("the same message later: %d turns, %v", len(f.list("turn/start")), err)
	}
}

func TestCodexRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		method, answer string
		want           error
	}{
		"no rollout":     {"thread/read", `{"code":-32600,"message":"no rollout found"}`, ErrRefused},
		"no such method": {"turn/start", `{"code":-32601,"message":"unknown method"}`, ErrUnsupported},
		"overloaded":     {"turn/start", `{"code":-32001,"message":"Server overloaded; retry later."}`, ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeCodex(t)
			s := f.mustFind()
			f.change(func() { f.refuse[test.method] = test.answer })
			_, err := s.Post(t.Context(), newPost())
			if e, ok := errors.AsType[*Error](err); !ok || e.Err != test.want || e.Version != "0.169.0" {
				t.Errorf("Post: %v, want %v", err, test.want)
			}
		})
	}
}

// What the app-server says that makes no sense ends a post at most, and before a call has taken too
// long.
func TestCodexSendsGarbage(t *testing.T) {
	for name, garbage := range map[string]string{
		"no JSON":            "garbage\n[]\n7\nnull\n{}\n" + `{"id":"x","result":1}` + "\n" + `{"id":999}` + "\n" + `{"method":7}` + "\n" + `{"method":"item/completed","params":[]}` + "\n",
		"a long line":        `{"method":"item/completed","params":{"x":"` + strings.Repeat("x", maxCodexFrame-100) + `"}}` + "\n",
		"a line too long":    strings.Repeat("x", maxCodexFrame+1) + "\n",
		"many notifications": strings.Repeat(`{"method":"thread/status/changed","params":{"threadId":"x","status":{"type":"idle"}}}`+"\n", 2*maxNotices),
		"deep nesting":       `{"method":"item/completed","params":` + strings.Repeat("[", 100_000) + "}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeCodex(t)
			s := f.mustFind().(*codex)
			s.callTime = await.Patience // longer than any of it takes on a slow machine
			p := newPost()
			p.Untrusted = "what a peer wrote"
			f.change(func() {
				f.before["turn/start"] = garbage
				f.after["turn/start"] = proof(ownThread, p.Message.String())
			})
			_, err := s.Post(t.Context(), p)
			if err != nil && (!errors.Is(err, ErrGone) || strings.Contains(err.Error(), context.DeadlineExceeded.Error())) {
				t.Errorf("Post: %v", err)
			}
			if err == nil != slices.Contains([]string{"no JSON", "a long line", "deep nesting"}, name) {
				t.Errorf("Post: %v", err)
			}
			p = newPost()
			f.change(func() {
				f.before["turn/start"] = ""
				f.after["turn/start"] = proof(ownThread, p.Message.String())
			})
			if _, err := s.Post(t.Context(), p); err != nil {
				t.Errorf("the next post: %v", err)
			}
		})
	}
}

func TestCodexHangsUp(t *testing.T) {
	f := newFakeCodex(t)
	s := f.mustFind()
	f.change(func() { f.silent["turn/start"] = true })
	p := newPost()
	done := postSoon(t, s, p)
	for len(f.list("turn/start")) == 0 {
		time.Sleep(time.Millisecond)
	}
	f.hangUp()
	if err := <-done; !errors.Is(err, ErrGone) {
		t.Errorf("Post: %v", err)
	}
	f.change(func() { f.silent["turn/start"], f.silent["thread/read"] = false, true })
	done = postSoon(t, s, newPost())
	for len(f.list("thread/read")) < 4 {
		time.Sleep(time.Millisecond)
	}
	s.Close()
	if err := <-done; err == nil {
		t.Error("a post goes on after Close")
	}
	if _, err := s.Post(t.Context(), newPost()); err == nil {
		t.Error("posts after Close")
	}
}

func TestCodexIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*fakeCodex)
		saw    string
	}{
		"as it is":  {func(*fakeCodex) {}, ""},
		"old":       {func(f *fakeCodex) { f.version = "0.168.9" }, "needs 0.169.0 or later: update it"},
		"newer":     {func(f *fakeCodex) { f.version = "1.0.0" }, ""},
		"alpha":     {func(f *fakeCodex) { f.version = "0.169.1-alpha.2" }, "is not a version"},
		"no home":   {func(f *fakeCodex) { os.RemoveAll(filepath.Join(f.home, ".codex")) }, "codex 0.169.0 cannot be woken: it has no folder ~/.codex here"},
		"no socket": {func(f *fakeCodex) { os.RemoveAll(filepath.Join(f.home, ".codex/app-server-control")) }, "no app-server runs in ~/.codex; codex exec, and codex with -c, --search or -p, use none: start codex without them"},
		"ended":     {func(f *fakeCodex) { f.listener.Close() }, "no app-server runs in ~/.codex; codex exec"},
		"another's": {func(f *fakeCodex) { f.server = 666 }, "the app-server of ~/.codex has not started this session; codex exec, and codex with -c"},
		"refuses":   {func(f *fakeCodex) { f.refuse["initialize"] = `{"code":-32600,"message":"no"}` }, "initialize: it answers with the error -32600"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeCodex(t)
			test.change(f)
			s, err := f.find()
			if test.saw == "" {
				if err != nil || s == nil {
					t.Error(err)
				}
			} else if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), test.saw) {
				t.Errorf("%v, want %q", err, test.saw)
			}
		})
	}
}

func FuzzCodexMessage(f *testing.F) {
	for _, seed := range []string{
		proof("t", "c"), `{"id":1,"result":{"userAgent":"acpd/0.169.0 (x)"}}`, `{"id":1,"error":{"code":-32600,"message":"x"}}`,
		`{"method":"thread/status/changed","params":{"threadId":"t","status":{"type":"active","activeFlags":[]}}}`, `{"method":"x","id":7,"params":{}}`,
		`{"method":"thread/started","params":{"thread":{"id":"t"}}}`, `{"method":"thread/closed","params":{"threadId":"t"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		call := make(chan codexMessage, 1)
		c := &codexConn{notices: make(chan codexNotice, 1), calls: map[uint64]chan<- codexMessage{1: call}}
		if err := c.take(text); err != nil {
			t.Errorf("the first message ends the connection: %v", err)
		}
		select {
		case m := <-call:
			var r codexResumed
			json.Unmarshal(m.Result, &r)
			r.explainUnattended()
		case n := <-c.notices:
			if !slices.Contains([]string{noticeItem, noticeStatus, noticeStarted, noticeClosed}, n.method) {
				t.Errorf("notice %q", n.method)
			}
			n.params.Status.isAsking()
		default:
		}
	})
}

// What the model and its tools add to a turn, of which no client is named, fills no queue.
func TestCodexItemsOfNoClient(t *testing.T) {
	c := &codexConn{notices: make(chan codexNotice, 1)}
	for range 2 {
		if err := c.take([]byte(proof(ownThread, ""))); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.notices) != 0 {
		t.Error("an item without a client waits")
	}
}
