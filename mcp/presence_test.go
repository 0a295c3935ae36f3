package mcp

import (
	"context"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// watchedSession is a session whose program tells whether it can be woken.
type watchedSession struct {
	*fakeSession
	says chan harness.Presence
}

func (w *watchedSession) Watch(ctx context.Context, report func(harness.Presence)) {
	for {
		select {
		case p := <-w.says:
			report(p)
		case <-ctx.Done():
			return
		}
	}
}

// The daemon hears at once when a session can be woken, when it cannot, and when its user is asked.
func TestPresence(t *testing.T) {
	d := newFakeDaemon(t)
	w := &watchedSession{newFakeSession(), make(chan harness.Presence, 1)}
	w.says <- harness.Presence{Unwakeable: &harness.Error{Harness: "codex", Err: harness.ErrNoTurn}}
	p, agent := attachedProgram(t, d, &Server{FindSession: func(context.Context, string, string) (harness.Session, error) { return w, nil }})
	expect := func(agent attachedAgent, why string) {
		t.Helper()
		if s := agent.params.Session; agent.params.Name != "claude" || s.Version != "2.1.330" || s.Unwakeable != why {
			t.Errorf("attached as %+v, session %+v", agent.params, s)
		}
	}
	expect(agent, "its conversation has had no turn yet: say something to it once")
	w.says <- harness.Presence{}
	again := await.Receive(t, "the daemon hears that it can be woken", d.attached)
	expect(again, "")
	if again.conn != agent.conn || again.params.Key == "" {
		t.Errorf("by another connection: %v, with the key %q", again.conn != agent.conn, again.params.Key)
	}
	w.says <- harness.Presence{Unwakeable: ownwords.New("a turn\nruns")}
	expect(await.Receive(t, "the daemon hears that it cannot", d.attached), "a turn runs")

	w.says <- harness.Presence{Asks: "Codex"}
	asking := await.Receive(t, "the daemon hears that its user is asked", d.attached)
	if expect(asking, ""); asking.params.Session.Asks != "Codex" || asking.params.Session.Folder == "" || asking.params.Session.Begun.IsZero() {
		t.Errorf("session %+v", asking.params.Session)
	}
	p.must("shown", "acp_inbox", nil)
}

// What the daemon has refused to note, and is not so any more, is not what the daemon has after the connection
// was renewed.
func TestARefusedPresenceIsTakenBack(t *testing.T) {
	d := newFakeDaemon(t)
	w := &watchedSession{newFakeSession(), make(chan harness.Presence)}
	failed := make(chan string, 64)
	s := &Server{
		FindSession: func(context.Context, string, string) (harness.Session, error) { return w, nil },
		Log:         func(format string, args ...any) { failed <- fmt.Sprintf(format, args...) },
	}
	go func() { w.says <- harness.Presence{} }()
	_, agent := attachedProgram(t, d, s)
	refuse := func(refuses bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.names["claude"] = refuses
	}
	expect := func(when, asks string) {
		t.Helper()
		agent = await.Receive(t, when, d.attached)
		if got := agent.params.Session.Asks; got != asks {
			t.Errorf("%s: the daemon has that %q asks, want %q", when, got, asks)
		}
	}
	refuse(true)
	w.says <- harness.Presence{Asks: "Codex"}
	await.Receive(t, "the daemon refuses it", failed)
	w.says <- harness.Presence{}
	await.Until(t, "it is taken back", func() bool { info, _ := s.agent.currentInfo(); return info.Asks == "" })
	refuse(false)
	expect("the daemon is told again", "")
	agent.conn.Close()
	expect("the connection is renewed", "")
}

// When the connection is renewed, the daemon is told what is so then, once.
func TestPresenceOutlastsTheConnection(t *testing.T) {
	d := newFakeDaemon(t)
	w := &watchedSession{newFakeSession(), make(chan harness.Presence, 1)}
	w.says <- harness.Presence{}
	s := &Server{FindSession: func(context.Context, string, string) (harness.Session, error) { return w, nil }}
	_, agent := attachedProgram(t, d, s)
	for _, asks := range []string{"Codex", ""} {
		w.says <- harness.Presence{Asks: asks}
		for _, when := range []string{"a change", "a new connection"} {
			agent = await.Receive(t, when, d.attached)
			if got := agent.params.Session.Asks; got != asks {
				t.Errorf("%s: the daemon has that %q asks, want %q", when, got, asks)
			}
			if when == "a change" {
				agent.conn.Close()
			}
		}
	}
}

// A request whose turn was interrupted, because nobody answered what the program asked, ends with an error
// that says so. A post knows when the sender of its message wants no answer any more.
// holds: security.md#agents-on-this-machine
func TestTheProgramAskedInVain(t *testing.T) {
	d, p, agent, f := newWokenSession(t)
	wake := func(in *client.Inbound) harness.Post {
		t.Helper()
		woken := *in
		woken.Wake = &client.WakeGrant{}
		if err := agent.conn.Call(await.NewContext(t), client.MethodWake, &woken, new(client.WakeAnswer)); err != nil {
			t.Fatal(err)
		}
		return await.Receive(t, "a post", f.posts)
	}
	const why = "its owner was asked by Codex, and has not answered"
	query, end := openQuery(t, agent, "?", 0)
	p.awaitOpen(1)
	post := wake(query)
	if post.Abandoned() {
		t.Error("a query that is open is abandoned")
	}
	post.Unanswered("Codex")
	if got := await.Receive(t, "the query ends", end); got.err == nil || !strings.Contains(got.err.Error(), why) {
		t.Errorf("%v", got.err)
	}
	if post.Abandoned() {
		t.Error("a query that was answered is abandoned")
	}

	sent := d.takeReports()
	delegate := func(secs uint64) *client.Inbound {
		t.Helper()
		in := newInbound(kinds.KindDelegate, &kinds.Delegate{Task: "x"})
		in.DeadlineMS = secs
		if err := agent.conn.Call(await.NewContext(t), client.MethodDelegate, in, new(kinds.Ack)); err != nil {
			t.Fatal(err)
		}
		return in
	}
	given := delegate(0)
	post = wake(given)
	post.Unanswered("Codex")
	if got := await.Receive(t, "the error", sent); got.Ref != given.ID || !strings.Contains(string(got.Payload), why) {
		t.Errorf("%+v", got)
	}
	post.Unanswered("Codex")
	if len(sent) > 0 {
		t.Error("told twice")
	}

	given = delegate(0)
	post = wake(given)
	cancel := newInbound(kinds.KindCancel, &kinds.Cancel{})
	cancel.Ref = &given.ID
	if err := agent.conn.Call(await.NewContext(t), client.MethodCancel, cancel, new(kinds.Ack)); err != nil || !post.Abandoned() {
		t.Errorf("a cancelled delegation is abandoned: %v, %v", post.Abandoned(), err)
	}
	post = wake(delegate(1500))
	await.Until(t, "the deadline passes", post.Abandoned)

	query, end = openQuery(t, agent, "?", 1500)
	p.awaitOpen(1)
	post = wake(query)
	await.Receive(t, "the deadline passes", end)
	await.Until(t, "the query is abandoned", post.Abandoned)
}

// A session hears also of a call of a tool that there is not: so Codex can be asked which thread it is.
func TestACallOfNoToolIsNoted(t *testing.T) {
	_, p, _, f := newWokenSession(t)
	if _, err := p.CallTool(await.NewContext(t), &sdk.CallToolParams{Name: "acp_thread", Meta: sdk.Meta{"threadId": "019a"}}); err == nil {
		t.Error("there is such a tool")
	}
	if meta := await.Receive(t, "what came with the call", f.meta); meta["threadId"] != "019a" {
		t.Errorf("%v", meta)
	}
	p.must("shown", "acp_inbox", nil)
	await.Receive(t, "what came with a call of a tool that there is", f.meta)
	if len(f.meta) > 0 {
		t.Error("noted twice")
	}
}

// The owner's own wake is a line of ours, about no message.
func TestTheOwnersWake(t *testing.T) {
	_, p, agent, f := newWokenSession(t)
	for _, test := range []struct {
		err  error
		want client.WakeAnswer
	}{
		{nil, client.WakeAnswer{Posted: true}},
		{&harness.Error{Harness: "claude", Err: harness.ErrUnattended}, client.WakeAnswer{Refused: "the session is unattended"}},
	} {
		f.set(false, test.err)
		in := newInbound(kinds.KindNotify, &kinds.Notify{Topic: "acpd.test"})
		in.Wake = &client.WakeGrant{Test: true}
		var got client.WakeAnswer
		if err := agent.conn.Call(await.NewContext(t), client.MethodWake, in, &got); err != nil || got != test.want {
			t.Errorf("%+v, %v, want %+v", got, err, test.want)
		}
		if post := await.Receive(t, "a post", f.posts); !strings.HasPrefix(post.Pointer, "Your user tries ") || post.Untrusted != "" || post.Unattended {
			t.Errorf("%+v", post)
		}
	}
	if p.server.seen.newest() != (messageKey{}) {
		t.Error("it is a parent of calls")
	}
}
