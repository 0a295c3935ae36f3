package serve

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// An agent program cannot make its answer one that no daemon takes.
func TestAnswersOfProgramsCanBeSent(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000)
	for _, data := range []string{deep, `{"a":"` + strings.Repeat("x", maxPayload) + `"}`, `{"a":1}`} {
		a := &profileAnswer{Text: strings.Repeat("é", 3<<20) + "\xc3", Data: jsontext.Value(data)}
		for kind, p := range map[string]wire.Payload{kinds.KindResponse: a.makeResponse(), kinds.KindResult: a.makeResult()} {
			if err := kinds.CheckPayload(kind, p); err != nil || len(p) > maxPayload {
				t.Errorf("%s with %.20s: %d bytes, %v", kind, data, len(p), err)
			}
			if kept := strings.Contains(string(p), `"data":{"a":1}`); kept != (len(data) < 100) {
				t.Errorf("%s with %.20s: kept: %v", kind, data, kept)
			}
		}
	}
}

func TestAgentName(t *testing.T) {
	for command, want := range map[string]string{
		"cat":                       "cat",
		"./My_Script.sh":            "my-script",
		"/usr/bin/python3.12":       "python3",
		"facade":                    "agent-facade", // reads as an id
		"7zip":                      "agent-7zip",
		"日本":                        "agent",
		"_":                         "agent",
		strings.Repeat("long-", 10): "long-long-long-long-long-long-lo",
	} {
		got := makeAgentName(command)
		if got != want || identity.CheckName(got) != nil {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct{ out, response, result string }{
		{"hello\n", `{"summary":"hello"}`, `{"status":"completed","outcome":"hello"}`},
		{"hello\n\n", `{"summary":"hello\n"}`, `{"status":"completed","outcome":"hello\n"}`},
		{"", `{"summary":""}`, `{"status":"completed","outcome":""}`},
		{" {\"summary\": \"s\", \"x\": 1e300}\n", `{"summary": "s", "x": 1e300}`, `{"status":"completed","outcome":"s"}`},
		{`{"summary":"s","data":[1.0],"truncated":true}`, `{"summary":"s","data":[1.0],"truncated":true}`, `{"status":"completed","outcome":"s","data":[1.0],"truncated":true}`},
		{`{"summary":7}`, `{"summary":"{\"summary\":7}"}`, `{"status":"completed","outcome":"{\"summary\":7}"}`},
		{`{"data":7}`, `{"summary":"{\"data\":7}"}`, `{"status":"completed","outcome":"{\"data\":7}"}`},
		{`["summary"]`, `{"summary":"[\"summary\"]"}`, `{"status":"completed","outcome":"[\"summary\"]"}`},
		{`{"summary":"a","summary":"b"}`, `{"summary":"{\"summary\":\"a\",\"summary\":\"b\"}"}`, `{"status":"completed","outcome":"{\"summary\":\"a\",\"summary\":\"b\"}"}`},
		{`{"status":"failed","outcome":"no"}`, `{"summary":"{\"status\":\"failed\",\"outcome\":\"no\"}"}`, `{"status":"failed","outcome":"no"}`},
		{`{"status":"partial","outcome":"no"}`, `{"summary":"{\"status\":\"partial\",\"outcome\":\"no\"}"}`, `{"status":"completed","outcome":"{\"status\":\"partial\",\"outcome\":\"no\"}"}`},
		{"a\xffb", "{\"summary\":\"a\uFFFDb\"}", "{\"status\":\"completed\",\"outcome\":\"a\uFFFDb\"}"},
	} {
		o := &commandOutput{text: []byte(c.out)}
		if got := string(o.makeResponse()); got != c.response {
			t.Errorf("%q: response %s, want %s", c.out, got, c.response)
		}
		if got := string(o.makeResult()); got != c.result {
			t.Errorf("%q: result %s, want %s", c.out, got, c.result)
		}
	}
}

// What is too long is cut at a character, and says so.
func TestAnswersAreCut(t *testing.T) {
	for _, unit := range []string{"a", "語", "\x01"} {
		o := &commandOutput{}
		o.Write([]byte(strings.Repeat(unit, 2*maxPayload/len(unit))))
		p := o.makeResponse()
		r, err := kinds.ParsePayload[kinds.Response](p)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Truncated || strings.Trim(r.Summary, unit) != "" {
			t.Errorf("%q: truncated %v, other text %.20q", unit, r.Truncated, strings.Trim(r.Summary, unit))
		}
		if n := len(p); n > maxPayload || n < maxPayload-64 {
			t.Errorf("%q: %d bytes where %d fit", unit, n, maxPayload)
		}
	}
}

// Whatever a command prints becomes a payload that a daemon takes.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{"", "hi\n", `{"summary":"s","data":{}}`, `{"status":"completed","outcome":"x"}`, `{"summary":`, "\xff", "{\"summary\":\"\\ud800\"}", strings.Repeat("[", 100)} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, cut bool) {
		o := &commandOutput{text: text, cut: cut}
		for kind, p := range map[string]wire.Payload{kinds.KindResponse: o.makeResponse(), kinds.KindResult: o.makeResult()} {
			row, _ := kinds.FindKind(kind)
			if err := row.CheckPayload(p); err != nil || len(p) > maxPayload {
				t.Errorf("%q became the %s %q: %v", text, kind, p, err)
			}
		}
	})
}

func TestTail(t *testing.T) {
	var last lastOutput
	for range 1000 {
		last.Write([]byte("a line that is followed by others\n"))
	}
	if len(last.text) > 2*lastBytes || strings.Count(last.String(), "\n") != lastLines-1 {
		t.Errorf("%d bytes kept, shown %q", len(last.text), last.String())
	}
}

// deliverTo delivers to send, for an agent that is attached once.
func deliverTo(send func(context.Context, client.ResultParams) (*client.Receipt, error)) resultDelivery {
	return resultDelivery{send: send, attached: new(pace.Rounds).Next, delayed: func(*kinds.Error) {}}
}

// The result of work that ends while the daemon is away is sent as soon as the agent is attached again,
// however long that was. What a peer wishes is not hastened by that.
func TestAResultIsSentWhenTheDaemonIsBack(t *testing.T) {
	for code, atOnce := range map[kinds.Code]bool{kinds.DaemonUnavailable: true, kinds.Unreachable: false} {
		synctest.Test(t, func(t *testing.T) {
			const away = 10 * time.Minute
			var attachments pace.Rounds
			back := time.Now().Add(away)
			var isBack atomic.Bool
			time.AfterFunc(away, func() {
				isBack.Store(true)
				attachments.ComeRound()
			})
			var told []kinds.Code
			d := resultDelivery{attached: attachments.Next, delayed: func(why *kinds.Error) { told = append(told, why.Code) }}
			d.send = func(context.Context, client.ResultParams) (*client.Receipt, error) {
				if !isBack.Load() {
					return nil, kinds.Errorf(code, "away")
				}
				return &client.Receipt{}, nil
			}
			if err := d.deliver(t.Context(), client.ResultParams{}); err != nil {
				t.Fatal(err)
			}
			if late := time.Since(back); (late == 0) != atOnce {
				t.Errorf("%s: taken %s after the daemon was back", code, late)
			}
			if len(told) != 1 || told[0] != code {
				t.Errorf("%s: told of %v", code, told)
			}
		})
	}
}

// The result is repeated with the same id until it is taken.
func TestDeliver(t *testing.T) {
	unreachable := kinds.Errorf(kinds.Unreachable, "away")
	params := client.ResultParams{Head: client.Head{ID: clitest.SomeID}, Ref: clitest.SomeID, Payload: wire.Payload(`{}`)}
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		err := deliverTo(func(_ context.Context, p client.ResultParams) (*client.Receipt, error) {
			if at = append(at, time.Now()); p.ID != clitest.SomeID || p.Ref != clitest.SomeID {
				t.Errorf("another message: %+v", p)
			}
			if len(at) < 12 {
				return nil, unreachable
			}
			return &client.Receipt{}, nil
		}).deliver(t.Context(), params)
		if err != nil || len(at) != 12 {
			t.Fatalf("%v after %d attempts", err, len(at))
		}
		for i := 1; i < len(at); i++ {
			base := min(firstPause<<(i-1), longestPause)
			if pause := at[i].Sub(at[i-1]); pause < base*3/4 || pause > base*5/4 {
				t.Errorf("pause %d: %s, about %s expected", i, pause, base)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		// The other side's wish counts; an end that is final ends it.
		busy := kinds.Errorf(kinds.Overloaded, "busy")
		busy.RetryAfterMS = 90_000
		begun, calls := time.Now(), 0
		err := deliverTo(func(context.Context, client.ResultParams) (*client.Receipt, error) {
			if calls++; calls == 1 {
				return nil, busy
			}
			return nil, kinds.Errorf(kinds.NotFound, "expired")
		}).deliver(t.Context(), params)
		if !errors.Is(err, &kinds.Error{Code: kinds.NotFound}) || calls != 2 || time.Since(begun) != 90*time.Second {
			t.Errorf("%v after %d attempts and %s", err, calls, time.Since(begun))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := deliverTo(func(context.Context, client.ResultParams) (*client.Receipt, error) { return nil, unreachable }).deliver(ctx, params)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
	// What the peer does not take is replaced by a word that says so, once.
	var sent []client.ResultParams
	big := params
	big.Payload = wire.Payload(`{"x":"` + strings.Repeat("x", 1000) + `"}`)
	err := deliverTo(func(_ context.Context, p client.ResultParams) (*client.Receipt, error) {
		sent = append(sent, p)
		return nil, kinds.Errorf(kinds.TooLarge, "too large")
	}).deliver(t.Context(), big)
	if err == nil || len(sent) != 2 || sent[1].ID == clitest.SomeID || !strings.Contains(string(sent[1].Payload), `"status":"failed"`) {
		t.Errorf("%v, sent %d", err, len(sent))
	}
}

// serving is a run of acpctl serve.
type serving struct {
	attached  chan client.AttachParams
	out, talk await.Output
	interrupt context.CancelFunc
	ended     chan int
}

// startServe runs a command line of serve at a daemon that lets it attach.
func startServe(t *testing.T, f *clitest.FakeDaemon, args ...string) *serving {
	s := &serving{attached: make(chan client.AttachParams, 2), ended: make(chan int, 1)}
	f.SetAnswer(client.MethodStatus, &client.Status{})
	f.SetAnswer(client.MethodTasks, &client.Tasks{})
	f.SetHandler(client.MethodAttach, func(r *jsonrpc.Request) (any, error) {
		var p client.AttachParams
		err := r.ReadParams(&p)
		s.attached <- p
		return nil, err
	})
	var ctx context.Context
	ctx, s.interrupt = context.WithCancel(t.Context())
	go func() {
		s.ended <- f.RunWithoutHome(ctx, ui.Terminal{Out: &s.out, Err: &s.talk}, append([]string{"--home", f.Home}, args...)...)
	}()
	return s
}

// newWork returns a message of desk for an agent here.
func newWork(kind, payload string) *client.Inbound {
	return &client.Inbound{Name: "desk", Envelope: wire.Envelope{V: 1, ID: clitest.SomeID, From: clitest.DeskID, To: clitest.MyID, Kind: kind, Payload: wire.Payload(payload)}}
}

// A daemon that sends what a real one would not.
func TestServeTakesWhatComes(t *testing.T) {
	f := newDaemon(t)
	results := make(chan client.ResultParams, 1)
	f.SetHandler(client.MethodResult, func(r *jsonrpc.Request) (any, error) {
		var p client.ResultParams
		err := r.ReadParams(&p)
		p.Payload = append(wire.Payload(nil), p.Payload...)
		results <- p
		return &client.Receipt{ID: p.ID, State: client.Handed}, err
	})
	s := startServe(t, f, "--json", "serve", "--name", "x", "--domain", "a,b", "--concurrency", "7", "--about", "reviews Go code", "--",
		"sh", "-c", `printf '%s|%s|%s' "$ACP_THREAD" "$ACP_DOMAIN" "$ACP_DEADLINE_MS"`)
	p := await.Receive(t, "the agent", s.attached)
	if p.Name != "x" || strings.Join(p.Domains, " ") != "a b" || p.MaxConcurrent != 7 || len(p.Kinds) != 3 || p.About != "reviews Go code" {
		t.Errorf("attached as %+v", p)
	}
	in := newWork("query", `{"question":"q","domain":"d\u0000e"}`)
	in.Thread = "t\x00\x1b[2Ju"
	conn := f.AttachedConn()
	var answer jsontext.Value
	if err := conn.Call(t.Context(), "query", in, &answer); err != nil || string(answer) != `{"summary":"tu|de|"}` {
		t.Errorf("%s, %v", answer, err)
	}
	in.Payload = wire.Payload(`{"question":7}`)
	if err := conn.Call(t.Context(), "query", in, nil); err == nil {
		t.Error("a payload that is none was answered")
	}
	// A cancel without, with an unknown, and with a finished delegation.
	in.Kind, in.DeadlineMS, in.Payload = "delegate", 60_000, wire.Payload(`{"task":"t"}`)
	if err := conn.Call(t.Context(), "delegate", in, &answer); err != nil || string(answer) != `{"accepted":true}` {
		t.Errorf("%s, %v", answer, err)
	}
	if r := <-results; r.Ref != clitest.SomeID || string(r.Payload) != `{"status":"completed","outcome":"tu||60000"}` {
		t.Errorf("result %+v", r)
	}
	for _, ref := range []*wire.MessageID{nil, &clitest.SomeID, {1}} {
		in.Kind, in.Ref, in.Payload = "cancel", ref, nil
		if err := conn.Call(t.Context(), "cancel", in, &answer); err != nil || !strings.Contains(string(answer), `"accepted":false,"code":"not_found"`) {
			t.Errorf("%s, %v", answer, err)
		}
	}
	if err := conn.Call(t.Context(), "notify", in, nil); err == nil {
		t.Error("a notification was confirmed")
	}
	s.interrupt()
	if code := await.Receive(t, "the end", s.ended); code != frame.ExitInterrupted {
		t.Errorf("exit code %d: %s", code, s.talk.String())
	}
	if want := "acpctl serve: serving as x: query, delegate; Ctrl-C ends\n"; !strings.HasPrefix(s.talk.String(), want) {
		t.Errorf("told %q", s.talk.String())
	}
	if !strings.Contains(s.out.String(), `{"id":"`+clitest.SomeID.String()+`","from":"desk","kind":"delegate","state":"completed","took_ms":`) {
		t.Errorf("told %s", s.out.String())
	}
}

// Of a command that cannot be started the peer hears that alone. The owner is told why, with the path.
// holds: security.md#agents-on-this-machine
func TestACommandThatCannotBeStarted(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"interpreter", "#!/nonexistent/sh -e\n", "its first line names an interpreter that is not there: /nonexistent/sh -e: install it"},
		{"ends in CR", "#!/bin/sh\r\necho hi\r\n", "its first line ends in CR"},
		{"no program", "\x7fNO", "it is no program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newDaemon(t)
			path := filepath.Join(t.TempDir(), "answer.sh")
			if err := os.WriteFile(path, []byte(c.text), 0o700); err != nil {
				t.Fatal(err)
			}
			s := startServe(t, f, "serve", "--name", "x", "--stderr", "last", "--", path)
			await.Receive(t, "the agent", s.attached)
			in := newWork("query", `{"question":"q"}`)
			if err := f.AttachedConn().Call(t.Context(), "query", in, nil); err == nil || kinds.AsError(err).Message != "the command could not be started" {
				t.Errorf("the peer hears %v", err)
			}
			s.interrupt()
			await.Receive(t, "the end", s.ended)
			if said := s.talk.String(); !strings.Contains(said, "acpctl serve: the command could not be started: ") || !strings.Contains(said, path) || !strings.Contains(said, c.want) {
				t.Errorf("the owner hears %s", said)
			}
		})
	}
}

// Serve says what becomes of a result while the daemon is away, and sends it when the agent is attached again.
func TestServeKeepsAResultWhileTheDaemonIsAway(t *testing.T) {
	f := newDaemon(t)
	s := startServe(t, f, "serve", "--name", "x", "cat")
	await.Receive(t, "attach", s.attached)
	results := make(chan struct{}, 2)
	f.SetHandler(client.MethodResult, func(*jsonrpc.Request) (any, error) {
		results <- struct{}{}
		if len(s.attached) == 0 {
			away := kinds.Errorf(kinds.DaemonUnavailable, "away")
			away.RetryAfterMS = uint64((time.Hour).Milliseconds())
			return nil, away
		}
		return &client.Receipt{ID: clitest.SomeID, State: client.Handed}, nil
	})
	in := newWork("delegate", `{"task":"t"}`)
	conn := f.AttachedConn()
	if err := conn.Call(t.Context(), "delegate", in, nil); err != nil {
		t.Fatal(err)
	}
	await.Receive(t, "the result", results)
	about := "acpctl serve: delegate " + clitest.SomeID.String() + " from desk: "
	await.Until(t, "the words", func() bool {
		return strings.Contains(s.talk.String(), about+"the daemon is away: the result is kept here, and sent when the daemon is back\n")
	})
	conn.Close()
	await.Receive(t, "the result again", results)
	await.Until(t, "the words", func() bool { return strings.Contains(s.talk.String(), about+"the result is taken now\n") })
	s.interrupt()
	await.Receive(t, "the end", s.ended)
}

// An agent that may not attach ends with the daemon's reason.
func TestServeIsRefused(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodStatus, &client.Status{Agents: []client.Agent{{Name: "cat"}}}) // whose tasks are its own
	f.SetAnswer(client.MethodTasks, &client.Tasks{})
	f.WantResult(f.Run("serve", "cat"), frame.ExitLocal, "", "acpctl serve: an agent named cat is attached already: choose another name with --name, or stop that one\n")
	f.SetAnswer(client.MethodStatus, &client.Status{})
	f.SetAnswer(client.MethodAttach, kinds.Errorf(kinds.Overloaded, "too many"))
	f.WantResult(f.Run("serve", "cat"), frame.ExitLocal, "", "acpctl serve: too many\n")
}

// Of two that are started under one name at once, the one that comes late says so. It does not
// report the work of the other as failed.
func TestServeOfANameThatAttachesMeanwhile(t *testing.T) {
	f := newDaemon(t)
	asked := false // the other one attaches, and has work, after the first look at the daemon
	f.SetHandler(client.MethodStatus, func(*jsonrpc.Request) (any, error) {
		s := &client.Status{}
		if asked {
			s.Agents = []client.Agent{{Name: "cat"}}
		}
		asked = true
		return s, nil
	})
	f.SetHandler(client.MethodTasks, func(*jsonrpc.Request) (any, error) {
		all := &client.Tasks{}
		if asked {
			all.Tasks = []client.Task{{ID: clitest.SomeID, Direction: client.Taken, Peer: "desk", Agent: "cat", State: client.TaskAccepted}}
		}
		asked = true
		return all, nil
	})
	f.SetHandler(client.MethodError, func(*jsonrpc.Request) (any, error) {
		t.Error("the other one's work is reported as failed")
		return &client.Receipt{}, nil
	})
	f.SetAnswer(client.MethodAttach, kinds.Errorf(kinds.Invalid, "name: taken"))
	f.WantResult(f.Run("serve", "cat"), frame.ExitLocal, "", "acpctl serve: an agent named cat is attached already: choose another name with --name, or stop that one\n")
}

// Whoever serves under a name that a live session has hears of --name, and of no run first.
func TestServeAnnouncesNothingUnderATakenName(t *testing.T) {
	f := newDaemon(t)
	if err := os.Mkdir(filepath.Join(f.Home, client.AgentFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(f.Home, client.SocketName), filepath.Join(f.Home, client.AgentFolder, client.SocketName)); err != nil {
		t.Fatal(err)
	}
	f.SetAnswer(client.MethodAttach, kinds.Errorf(kinds.Invalid, "attach: name: an agent \"codex\" is attached already: choose another name").WithReason(kinds.ReasonNameTaken))
	f.WantResult(f.Run("serve", "--about", "two\nlines", "cat"), frame.ExitUsage, "", "acpctl serve: --about: expected one line of at most 120 printable characters\nSee: acpctl serve --help\n")
	f.WantResult(f.Run("serve", "--confine", "--name", "codex", "--confinement", "none", "cat"), frame.ExitLocal, "",
		"acpctl serve: --name: an agent \"codex\" is attached already: choose another name\n")
	missing := filepath.Join(f.Home, "missing")
	f.WantResult(f.Run("serve", "--confine", "--confinement", "none", "--dir", missing, "cat"), frame.ExitUsage, "",
		"acpctl serve: --dir: there is no folder "+missing+": make it, or name another\nSee: acpctl serve --help\n")
}

// What a peer gives as its reason adds no line that looks like one of serve's own.
func TestReasonsOfPeersStayOnOneLine(t *testing.T) {
	var said strings.Builder
	s := &server{Frame: &frame.Frame{Terminal: ui.Terminal{Err: &said}}}
	if s.logLine("delegate from desk: %v", "busy\nacpctl serve: all is well"); strings.Count(said.String(), "\n") != 1 {
		t.Errorf("serve: %q", said.String())
	}
}
