package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"rsc.io/qr"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Every code of the table ends a command with its exit code, in words and as JSON.
func TestEveryCodeHasItsExit(t *testing.T) {
	f := newFake(t)
	for _, row := range kinds.Codes() {
		// Exit 7 is for what the peer raised.
		local := row.Exit
		if local == exitFailed {
			local = exitLocal
		}
		f.on(client.MethodQuery, kinds.Errorf(row.Code, "what went wrong"))
		f.want(f.run("query", "desk", "hi"), local, "", "acpctl query: what went wrong\n")
		theirs := kinds.Errorf(row.Code, "what went wrong")
		theirs.From = deskID.String()
		f.on(client.MethodQuery, theirs)
		f.want(f.run("query", "desk", "hi"), row.Exit, "", "acpctl query: what went wrong\n")
		f.want(f.run("query", "desk", "hi", "--json"), row.Exit,
			fmt.Sprintf(`{"error":{"code":%q,"message":"what went wrong","retryable":%v,"from":%q}}`+"\n", row.Code, row.Retryable, deskID), "")
	}
	f.on(client.MethodQuery, &kinds.Error{Code: "of_the_future", Message: "new", From: deskID.String()})
	f.want(f.run("query", "desk", "hi"), exitFailed, "", "acpctl query: new\n")
	f.on(client.MethodQuery, client.MethodNotFound("query"))
	if got := f.run("query", "desk", "hi", "--json"); got.code != exitLocal || !strings.HasPrefix(got.out, `{"error":{"code":"internal"`) {
		t.Errorf("a daemon that does not know the method: %+v", got)
	}
}

// An interrupt before the answer is 130.
func TestInterrupted(t *testing.T) {
	f := newFake(t)
	asked := make(chan struct{})
	gone := make(chan struct{})
	ctx, interrupt := context.WithCancel(t.Context())
	f.does(client.MethodQuery, func(r *client.Request) (any, error) { close(asked); <-gone; return nil, nil })
	go func() { <-asked; interrupt() }()
	var out strings.Builder
	a := &app{out: &out, err: &out}
	if code := a.run(ctx, []string{"--home", f.home, "query", "desk", "hi"}); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	close(gone)
	a.daemon.Close()
	if got := out.String(); got != "acpctl query: interrupted\n" {
		t.Errorf("%q", got)
	}
}

// What peers write cannot drive a terminal, and what should stand on a line does.
func TestForeignTextIsTamed(t *testing.T) {
	const evil = "a\x1b[2Jb\x07c\u202ed\ne"
	f := newFake(t)
	payload := func(v any) wire.Payload { return kinds.Encode(v) }
	f.on(client.MethodQuery, &client.Answer{ID: someID, From: deskID, Kind: "response",
		Payload: payload(&kinds.Response{Summary: evil, Data: jsontext.Value("{\"k\":\"\\u001b[2J\u202e\"}")})})
	f.on(client.MethodDiscover, &client.Answer{ID: someID, From: deskID, Kind: "capabilities",
		Payload: payload(&kinds.Capabilities{AgentName: evil, Domains: []string{evil}, Tools: []string{evil}, Model: evil})})
	f.on(client.MethodPing, &client.Answer{ID: someID, From: deskID, Kind: "pong", Payload: payload(&kinds.Pong{Status: evil})})
	f.on(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: deskID, State: client.PeerPending, Claim: evil, Addrs: []string{evil}}}})
	f.on(client.MethodTasks, &client.Tasks{Tasks: []client.Task{{ID: someID, Peer: "desk", Direction: client.Taken, Task: evil, State: client.TaskFailed, Outcome: evil}}})
	f.on(client.MethodWait, &client.Task{ID: someID, State: client.TaskFailed, Outcome: evil})
	f.on(client.MethodCancel, &client.CancelAnswer{Ref: someID, Payload: payload(&kinds.Ack{Message: evil})})
	f.on(client.MethodDelegate, &client.Delegated{ID: someID, From: deskID, Payload: payload(&kinds.Ack{Message: evil})})
	f.on(client.MethodInbox, &client.Inbox{Messages: []client.HeldMessage{
		{Seq: 1, Envelope: wire.Envelope{V: 1, ID: someID, From: deskID, To: me, Kind: "notify", Payload: payload(&kinds.Notify{Topic: "t", Data: jsontext.Value("\"\u202e\"")})}},
		{Seq: 2, Envelope: wire.Envelope{V: 1, ID: someID, From: deskID, To: me, Kind: "result", Ref: &someID, Payload: payload(&kinds.Result{Status: "completed", Outcome: evil})}},
		{Seq: 3, Envelope: wire.Envelope{V: 1, ID: someID, From: deskID, To: me, Kind: "error", Ref: &someID, Payload: payload(kinds.Errorf(kinds.Internal, "%s", evil))}},
		{Seq: 4, Envelope: wire.Envelope{V: 1, ID: someID, From: deskID, To: me, Kind: "later", Payload: wire.Payload("{\"x\":\"\u202e\"}")}},
	}})
	f.on(client.MethodNotify, kinds.Errorf(kinds.Internal, "%s", evil))
	for _, args := range [][]string{
		{"query", "desk", "hi"}, {"discover", "desk"}, {"ping", "desk", "-c", "1"}, {"peers"}, {"tasks"}, {"wait", someID.String()},
		{"cancel", someID.String()}, {"delegate", "desk", "x"}, {"inbox"}, {"notify", "desk", "t", "x"}, {"trust", evil}, {"trust", deskID.String()[:8]},
	} {
		got := f.run(args...)
		if all := got.out + got.err; strings.ContainsAny(all, "\x1b\x07\u202e") || all == "" {
			t.Errorf("%v: %q", args, all)
		}
		if lines := strings.Count(got.out, "\n"); (args[0] == "peers" || args[0] == "tasks") && lines != 1 || args[0] == "inbox" && lines != 4 {
			t.Errorf("%v: %d lines: %q", args, lines, got.out)
		}
	}
}

// On a terminal there are heads, colours where they are wanted, and times for people.
func TestTerminal(t *testing.T) {
	f := newFake(t)
	rtt := uint64(1234)
	f.on(client.MethodPeers, &client.Peers{Peers: []client.Peer{
		{ID: deskID, Name: "desk", State: client.PeerConnected, Addrs: []string{"192.0.2.1:7117"}, RTTUS: &rtt, Source: client.SourceMDNS},
		{ID: me, State: client.PeerPending, Claim: "desk", NameConflict: true},
	}})
	f.want(f.run("peers"), 0, "desk\tde5c000000\tconnected\t1.234 ms\t-\tmdns\t192.0.2.1:7117\n"+
		"\"desk\" (a trusted peer's name!)\tacdc000000\tpending\t-\t-\t-\t\n", "")
	plainly := "NAME                             ID          STATE      RTT       SEEN  SOURCE  ADDRESSES\n" +
		"desk                             de5c000000  connected  1.234 ms  -     mdns    192.0.2.1:7117\n" +
		"\"desk\" (a trusted peer's name!)  acdc000000  pending    -         -     -\n"
	f.want(f.as(&app{outTTY: true}, "", "peers"), 0, plainly, "")
	got := f.typed("", "peers")
	if !strings.Contains(got.out, green+"connected"+plain) || !strings.Contains(got.out, yellow+"pending"+plain) {
		t.Errorf("no colours: %q", got.out)
	}
	for _, code := range []string{bold, green, yellow, plain} {
		got.out = strings.ReplaceAll(got.out, code, "")
	}
	if got.out != plainly {
		t.Errorf("with colours it is another text:\n%s", got.out)
	}
	f.on(client.MethodTasks, &client.Tasks{})
	f.want(f.typed("", "tasks"), 0, "", "none\n")
	f.want(f.run("tasks"), 0, "", "")

	f.on(client.MethodQuery, &client.Answer{ID: someID, From: deskID, Kind: "response", RTTUS: 12340,
		Payload: wire.Payload(`{"summary":"yes","data":{"n":1.50},"truncated":true}`)})
	f.want(f.run("query", "desk", "hi"), 0, "yes\n{\"n\":1.50}\n", "")
	f.want(f.typed("", "query", "desk", "hi"), 0, "yes\n{\n\t\"n\": 1.50\n}\n", "(cut short by the one who answered)\n(12.34ms)\n")
	f.want(f.typed("", "query", "desk", "hi", "--json"), 0,
		`{"id":"`+someID.String()+`","from":"`+deskID.String()+`","kind":"response","rtt_us":12340,"payload":{"summary":"yes","data":{"n":1.50},"truncated":true}}`+"\n", "")
}

// NewApp is what main makes: in a test nothing of it is a terminal.
func TestColoursCanBeRefused(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if !newApp().colours {
		t.Error("no colours by default")
	}
	t.Setenv("NO_COLOR", "1")
	if newApp().colours {
		t.Error("colours in spite of NO_COLOR")
	}
}

func TestInviteOnATerminal(t *testing.T) {
	f := newFake(t)
	inv := identity.Invitation{ID: deskID, Addrs: []string{"192.0.2.1:7117"}, Name: "desk", PQ: identity.PQHash{1}, Token: [16]byte{1}}
	f.on(client.MethodInvite, &client.Invitation{URI: inv.String(), Expires: time.Now()})
	f.want(f.run("invite"), 0, inv.String()+"\n", "")
	got := f.typed("", "invite")
	if got.out != inv.String()+"\n" || !strings.Contains(got.err, "acpctl join") || !strings.Contains(got.err, "█") {
		t.Errorf("%+v", got)
	}
	if got := f.typed("", "invite", "--json"); strings.Contains(got.err, "█") {
		t.Error("a QR code beside JSON")
	}
}

// What is drawn is the code, module for module, within its quiet zone.
func TestQRCode(t *testing.T) {
	const text = "acp://desk.example"
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		t.Fatal(err)
	}
	for _, colour := range []bool{false, true} {
		drawn, columns, err := qrCode(text, colour)
		if err != nil {
			t.Fatal(err)
		}
		drawn = strings.NewReplacer("\x1b[97;40m", "", plain, "").Replace(drawn)
		size := code.Size + 2*quietZone
		if columns != size {
			t.Errorf("%d columns for %d modules", columns, size)
		}
		lines := strings.Split(strings.TrimSuffix(drawn, "\n"), "\n")
		if len(lines) != (size+1)/2 {
			t.Fatalf("%d lines for %d modules", len(lines), size)
		}
		for y := range size {
			row := []rune(lines[y/2])
			if len(row) != size {
				t.Fatalf("line %d has %d characters for %d modules", y/2, len(row), size)
			}
			for x, r := range row {
				light := r == '█' || r == '▀' && y%2 == 0 || r == '▄' && y%2 == 1
				if light == code.Black(x-quietZone, y-quietZone) {
					t.Fatalf("module %d, %d is wrong", x-quietZone, y-quietZone)
				}
			}
		}
	}
}

func TestJoinAsksForTheLine(t *testing.T) {
	f := newFake(t)
	inv := identity.Invitation{ID: deskID, Token: [16]byte{1}}.String()
	f.does(client.MethodJoin, func(r *client.Request) (any, error) {
		var p client.JoinParams
		if err := r.Bind(&p); err != nil || p.URI != inv {
			return nil, fmt.Errorf("%v: %s", err, p.URI)
		}
		return &client.NamedPeer{ID: deskID, Name: "desk"}, nil
	})
	f.want(f.typed(inv+"\nmore", "join"), 0, "trusted desk (de5c 0000 0000 0000 0000 0000 0000 0000)\n", "Paste the invitation:\ntry acpctl ping desk\n")
	f.want(f.as(&app{}, inv, "join"), 0, "desk\n", "")
	f.want(f.run("join", inv, "--json"), 0, `{"id":"`+deskID.String()+`","name":"desk"}`+"\n", "")
	if got := f.as(&app{}, strings.Repeat("a", 5000), "join"); got.code != exitLocal {
		t.Errorf("a line without end: %+v", got)
	}
}

// A person's yes is for the key that was shown.
func TestTrustTakesTheKeyThatWasShown(t *testing.T) {
	f := newFake(t)
	first := client.Peer{ID: deskID, State: client.PeerPending, Claim: "desk", Addrs: []string{"192.0.2.1:7117"}}
	second := client.Peer{ID: me, State: client.PeerPending, Claim: "desk"}
	var got client.TrustParams
	f.does(client.MethodTrust, func(r *client.Request) (any, error) {
		got = client.TrustParams{}
		err := r.Bind(&got)
		return &client.NamedPeer{ID: deskID, Name: "desk"}, err
	})
	f.on(client.MethodPeers, &client.Peers{Peers: []client.Peer{first}})
	if r := f.typed("yes\n", "trust", "desk"); r.code != 0 || got.Peer != deskID.String() || !strings.Contains(r.err, deskID.Fingerprint()) || r.out != "trusted desk ("+deskID.Fingerprint()+")\n" {
		t.Errorf("%+v: trusted %+v", r, got)
	}
	for _, answer := range []string{"", "y\n", "Yes\n", "no\n", "yes please\n"} {
		got = client.TrustParams{}
		if r := f.typed(answer, "trust", deskID.String()[:6]); r.code != exitLocal || got.Peer != "" {
			t.Errorf("%q: %+v: trusted %+v", answer, r, got)
		}
	}
	if r := f.typed("yes\n", "trust", deskID.String()[:5]); r.code != exitUsage {
		t.Errorf("five digits name somebody: %+v", r)
	}
	f.on(client.MethodPeers, &client.Peers{Peers: []client.Peer{first, second}})
	if r := f.typed("yes\n", "trust", "desk"); r.code != exitUsage || !strings.Contains(r.err, deskID.String()) || !strings.Contains(r.err, me.String()) {
		t.Errorf("two of a name: %+v", r)
	}
	// Who is trusted under that name is meant, whatever a stranger calls itself.
	f.on(client.MethodPeers, &client.Peers{Peers: []client.Peer{second, {ID: deskID, Name: "desk", State: client.PeerTrusted}}})
	if r := f.run("trust", "desk", "--addr", "desk.example:7117", "--addr", "192.0.2.1:7117"); r.code != 0 || got.Peer != deskID.String() || len(got.Addrs) != 2 {
		t.Errorf("%+v: trusted %+v", r, got)
	}
}

// Partial results are printed as they come, the outcome last.
func TestWaitFollows(t *testing.T) {
	f := newFake(t)
	f.does(client.MethodWait, func(r *client.Request) (any, error) {
		var p client.WaitParams
		if err := r.Bind(&p); err != nil {
			return nil, err
		}
		task := &client.Task{ID: p.ID, Peer: "desk", Direction: client.Given, State: client.TaskCompleted, Partials: 2, Outcome: "all",
			Result: wire.Payload(`{"status":"completed","outcome":"all","data":[1]}`)}
		if p.AfterPartials != nil && *p.AfterPartials < 2 {
			n := *p.AfterPartials + 1
			task.State, task.Outcome, task.Result, task.Partials = client.TaskAccepted, "", nil, n
			task.Partial = fmt.Appendf(nil, `{"status":"partial","outcome":"part %d"}`, n)
		}
		return task, nil
	})
	f.want(f.run("wait", someID.String()), 0, "all\n[1]\n", "")
	f.want(f.run("wait", "-f", someID.String()), 0, "part 1\npart 2\nall\n[1]\n", "")
	if got := f.run("wait", "--follow", "--json", someID.String()); strings.Count(got.out, "\n") != 3 || !strings.Contains(got.out, `"partial":{"status":"partial","outcome":"part 2"}`) {
		t.Errorf("%+v", got)
	}
}

// How a task ended is the exit code, and the last line of delegate --wait.
func TestOutcomes(t *testing.T) {
	f := newFake(t)
	f.on(client.MethodDelegate, &client.Delegated{ID: someID, From: deskID, Payload: wire.Payload(`{"accepted":true}`)})
	for _, c := range []struct {
		task client.Task
		code int
		line string
	}{
		{client.Task{State: client.TaskCompleted, Result: wire.Payload(`{"status":"completed","outcome":"x","more":1}`)}, 0, `"kind":"result","payload":{"status":"completed","outcome":"x","more":1}`},
		{client.Task{State: client.TaskFailed, Result: wire.Payload(`{"status":"failed","outcome":"x"}`)}, 7, `"kind":"result","payload":{"status":"failed","outcome":"x"}`},
		{client.Task{State: client.TaskFailed, Result: wire.Payload(`{"code":"internal","message":"x"}`)}, 7, `"kind":"error","payload":{"code":"internal","message":"x"}`},
		{client.Task{State: client.TaskFailed, Result: wire.Payload(`{"code":"not_trusted","message":"x"}`)}, 4, `"kind":"error","payload":{"code":"not_trusted","message":"x"}`},
		{client.Task{State: client.TaskCancelled, Outcome: "why"}, 7, `"kind":"error","payload":{"code":"cancelled","message":"why","retryable":false}`},
		{client.Task{State: client.TaskExpired}, 3, `"kind":"error","payload":{"code":"timeout","message":"the deadline passed","retryable":true}`},
		{client.Task{State: client.TaskAccepted}, 0, `"kind":"result","payload":{}`},
		{client.Task{State: "of_the_future"}, 7, `"kind":"error","payload":{}`},
	} {
		c.task.ID = someID
		f.on(client.MethodWait, &c.task)
		if got := f.run("wait", someID.String()); got.code != c.code {
			t.Errorf("wait, %s: exit code %d", c.task.State, got.code)
		}
		got := f.run("delegate", "desk", "x", "--wait", "--json")
		_, last, _ := strings.Cut(got.out, "\n")
		if want := `{"ref":"` + someID.String() + `","from":"` + deskID.String() + `",` + c.line + "}\n"; got.code != c.code || last != want {
			t.Errorf("delegate --wait, %s: exit code %d\ngot  %swant %s", c.task.State, got.code, last, want)
		}
	}
	// The outcome in full is in the result.
	for payload, want := range map[string]ran{
		`{"status":"completed","outcome":"the whole of it"}`: {0, "the whole of it\n", ""},
		`{"status":"failed","outcome":"the whole of it"}`:    {7, "", "acpctl wait: failed: the whole of it\n"},
		`{"code":"internal","message":"the whole of it"}`:    {7, "", "acpctl wait: failed: the whole of it\n"},
	} {
		task := &client.Task{ID: someID, State: client.TaskFailed, Outcome: "the wh…", Result: wire.Payload(payload)}
		if want.code == 0 {
			task.State = client.TaskCompleted
		}
		f.on(client.MethodWait, task)
		f.want(f.run("wait", someID.String()), want.code, want.out, want.err)
		want.err = "accepted: " + someID.String() + "\n" + strings.Replace(want.err, "wait", "delegate", 1)
		f.want(f.run("delegate", "desk", "x", "--wait"), want.code, want.out, want.err)
	}
	f.on(client.MethodWait, kinds.Errorf(kinds.DaemonUnavailable, "it went away"))
	f.want(f.run("delegate", "desk", "x", "--wait", "--id", someID.String()), 6, "",
		"accepted: "+someID.String()+"\nacpctl delegate: it went away; the task was accepted: see acpctl wait "+someID.String()+", or acpctl cancel "+someID.String()+"\n")
	f.on(client.MethodDelegate, &client.Delegated{ID: someID, From: deskID, Payload: wire.Payload(`{"accepted":false,"message":"busy"}`)})
	f.want(f.run("delegate", "desk", "x"), 4, "", "acpctl delegate: refused: busy\n")
	f.want(f.run("delegate", "desk", "x", "--wait", "--json"), 4, `{"id":"`+someID.String()+`","from":"`+deskID.String()+
		`","payload":{"accepted":false,"message":"busy"},"error":{"code":"not_authorized","message":"busy","retryable":false}}`+"\n", "")
}

// Whoever stops waiting for a task knows its id, and how to go on.
func TestInterruptedWait(t *testing.T) {
	f := newFake(t)
	f.on(client.MethodDelegate, &client.Delegated{ID: someID, From: deskID, Payload: wire.Payload(`{"accepted":true}`)})
	ctx, interrupt := context.WithCancel(t.Context())
	gone := make(chan struct{})
	f.does(client.MethodWait, func(r *client.Request) (any, error) { interrupt(); <-gone; return nil, nil })
	var out, talk strings.Builder
	a := &app{out: &out, err: &talk}
	code := a.run(ctx, []string{"--home", f.home, "delegate", "desk", "x", "--wait", "--id", someID.String()})
	close(gone)
	a.daemon.Close()
	id := someID.String()
	f.want(ran{code, out.String(), talk.String()}, exitInterrupted, "",
		"accepted: "+id+"\nacpctl delegate: interrupted; the task was accepted: see acpctl wait "+id+", or acpctl cancel "+id+"\n")
}

// What a daemon tells agents to do is told in words of the command line.
func TestRemediesCanBeTyped(t *testing.T) {
	f := newFake(t)
	id := someID.String()
	f.on(client.MethodCancel, kinds.Errorf(kinds.NotFound, "ref: say in `to` whom it went to"))
	f.want(f.run("cancel", id), exitLocal, "", "acpctl cancel: ID: "+id+" names no delegation that was given here: see acpctl tasks\n")
	f.on(client.MethodPing, kinds.Errorf(kinds.DaemonUnavailable, "gone: repeat it with the same id"))
	f.want(f.run("ping", "desk", "-c", "1"), 6, "", "acpctl ping: gone: try again\n")
	f.on(client.MethodQuery, kinds.Errorf(kinds.Timeout, "allow more time, or repeat with the same id"))
	f.want(f.run("query", "desk", "x"), 3, "", "acpctl query: allow more time, or try again\n")
	f.on(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: deskID, Name: "desk", State: client.PeerBlocked}}})
	for _, ref := range []string{"desk", deskID.String()[:8]} {
		if got := f.run("trust", ref); got.code != exitUsage || !strings.Contains(got.err, "by its full id, "+deskID.String()) {
			t.Errorf("%+v", got)
		}
	}
}

// An id may be typed in upper case.
func TestUpperCase(t *testing.T) {
	f := newFake(t)
	f.does(client.MethodTrust, func(r *client.Request) (any, error) {
		var p client.TrustParams
		if err := r.Bind(&p); err != nil || p.Peer != deskID.String() {
			return nil, fmt.Errorf("%+v: %v", p, err)
		}
		return &client.NamedPeer{ID: deskID, Name: "desk"}, nil
	})
	f.want(f.run("trust", "--yes", strings.ToUpper(deskID.String())), 0, "desk\n", "")
}

// The inbox is read page by page.
func TestInboxPages(t *testing.T) {
	f := newFake(t)
	f.on(client.MethodPeers, &client.Peers{})
	f.does(client.MethodInbox, func(r *client.Request) (any, error) {
		var p client.InboxParams
		if err := r.Bind(&p); err != nil {
			return nil, err
		}
		page := &client.Inbox{Messages: []client.HeldMessage{{Seq: p.After + 1, Envelope: wire.Envelope{V: 1, ID: someID, From: deskID, To: me, Kind: "notify", Payload: wire.Payload(`{"topic":"t"}`)}}}}
		if p.After == 0 {
			page.Next = 1
		}
		return page, nil
	})
	row := "\t" + deskID.Label() + "\t-\tnotify\tt \n"
	f.want(f.run("inbox"), 0, "1"+row, "acpctl inbox: there is more: acpctl inbox --after 1 shows it, acpctl inbox --ack 1 removes these\n")
	f.want(f.run("inbox", "--after", "1"), 0, "2"+row, "")
}

// Where a message may have arrived, the id is told under which it can be repeated.
func TestUnknownDeliveryNamesTheID(t *testing.T) {
	f := newFake(t)
	for verb, args := range map[string][]string{"delegate": {"x"}, "notify": {"t", "x"}} {
		lost := kinds.Errorf(kinds.Unreachable, "gone").WithDelivered(kinds.DeliveredUnknown)
		var sent client.Head
		f.does(verb, func(r *client.Request) (any, error) {
			if err := json.Unmarshal(r.Params, &sent); err != nil {
				return nil, err
			}
			return nil, lost
		})
		f.on(verb, lost)
		args = append([]string{verb, "desk", "--id", someID.String()}, args...)
		f.want(f.run(args...), 5, "", "acpctl "+verb+": gone; it may have arrived: repeat it with --id "+someID.String()+"\n")
		if got := f.run(append(args, "--json")...); !strings.Contains(got.out, `"details":{"delivered":"unknown","id":"`+someID.String()+`"}`) {
			t.Errorf("%s", got.out)
		}
		// The daemon's remedy is not told twice.
		f.on(verb, kinds.Errorf(kinds.Unreachable, "gone; repeat with the same id when it is back").WithDelivered(kinds.DeliveredUnknown))
		f.want(f.run(args...), 5, "", "acpctl "+verb+": gone; repeat with --id "+someID.String()+" when it is back\n")
	}
}

// A query is repeated only while it cannot have arrived.
func TestWaitForPeer(t *testing.T) {
	f := newFake(t)
	calls := 0
	answers := func(errs ...error) {
		calls = 0
		f.does(client.MethodQuery, func(*client.Request) (any, error) {
			if calls++; calls <= len(errs) {
				return nil, errs[calls-1]
			}
			return &client.Answer{ID: someID, From: deskID, Kind: "response", Payload: wire.Payload(`{"summary":"here"}`)}, nil
		})
	}
	away := kinds.Errorf(kinds.Unreachable, "away").WithDelivered(kinds.DeliveredNo)
	answers(away, away)
	if got := f.run("query", "desk", "hi", "--wait-for-peer", "20s"); got.out != "here\n" || calls != 3 {
		t.Errorf("%+v after %d calls", got, calls)
	}
	for _, end := range []error{
		kinds.Errorf(kinds.Unreachable, "gone").WithDelivered(kinds.DeliveredUnknown),
		kinds.Errorf(kinds.UnknownPeer, "who?"),
	} {
		answers(end)
		if got := f.run("query", "desk", "hi", "--wait-for-peer", "20s"); got.code != 5 || calls != 1 {
			t.Errorf("%+v after %d calls", got, calls)
		}
	}
	answers(away)
	if got := f.run("query", "desk", "hi"); got.code != 5 || calls != 1 {
		t.Errorf("%+v after %d calls", got, calls)
	}
}

// ACP_ID is the parent of what is sent, unless another one is named.
func TestParent(t *testing.T) {
	f := newFake(t)
	var p client.QueryParams
	f.does(client.MethodQuery, func(r *client.Request) (any, error) {
		p = client.QueryParams{}
		return &client.Answer{ID: someID, From: deskID, Kind: "response", Payload: wire.Payload(`{"summary":""}`)}, r.Bind(&p)
	})
	t.Setenv("ACP_ID", someID.String())
	f.run("query", "desk", "hi")
	if p.Parent != someID || p.ID.IsZero() || p.Thread != "" {
		t.Errorf("%+v", p)
	}
	other := wire.NewMessageID()
	f.run("query", "desk", "hi", "--parent", other.String())
	if p.Parent != other {
		t.Errorf("%+v", p)
	}
	t.Setenv("ACP_ID", "")
	f.run("query", "desk", "hi", "--thread", "t")
	if !p.Parent.IsZero() || p.Thread != "t" {
		t.Errorf("%+v", p)
	}
}

func TestSummarize(t *testing.T) {
	hundred := make([]uint64, 200)
	for i := range hundred {
		hundred[i] = uint64(200 - i)
	}
	for _, c := range []struct {
		rtts []uint64
		want pingSummary
	}{
		{nil, pingSummary{Sent: 3}},
		{[]uint64{7}, pingSummary{3, 1, 7, 7, 7, 7}},
		{[]uint64{9, 1}, pingSummary{3, 2, 1, 5, 9, 9}},
		{hundred, pingSummary{3, 200, 1, 100, 200, 198}},
	} {
		if got := summarize(3, c.rtts); got != c.want {
			t.Errorf("%d pings: %+v, want %+v", len(c.rtts), got, c.want)
		}
	}
}
