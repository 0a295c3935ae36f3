package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestActions: what the page does reaches the daemon, and what the daemon says of it the page.
// holds: security.md#the-page-of-acpctl-web
func TestActions(t *testing.T) {
	f := newFixture(t, nil)
	browser, page := f.letIn()
	asked := make(chan string, 4)
	f.daemon.SetHandler(client.MethodApprove, func(r *jsonrpc.Request) (any, error) {
		asked <- string(r.Params)
		return &client.Approval{Message: clitest.SomeID}, nil
	})
	f.daemon.SetHandler(client.MethodMuteAgent, func(r *jsonrpc.Request) (any, error) {
		asked <- string(r.Params)
		return nil, kinds.Errorf(kinds.NotFound, "no agent \x1b[31mplanner")
	})
	header := []string{"Origin", fmt.Sprintf("http://127.0.0.1:%d", f.Port()), "Content-Type", "application/json; charset=utf-8"}
	if status, text := f.ask(browser, "POST", page+"decide", `{"id":"a1","answer":"yes"}`, header...); status != 200 || text != "{}" {
		t.Error(status, text)
	}
	if got := <-asked; got != `{"id":"a1","answer":"yes"}` {
		t.Error(got)
	}
	if status, text := f.ask(browser, "POST", page+"mute", `{"name":"planner","secs":3600}`, header...); status != http.StatusConflict || strings.Contains(text, "\x1b") || !strings.Contains(text, "no agent planner") {
		t.Errorf("%d %q", status, text)
	}
	if got := <-asked; got != `{"name":"planner","secs":3600}` {
		t.Error(got)
	}

	removed := 1
	f.daemon.SetHandler(client.MethodShown, func(r *jsonrpc.Request) (any, error) {
		asked <- string(r.Params)
		return struct{}{}, nil
	})
	f.daemon.SetHandler(client.MethodAck, func(r *jsonrpc.Request) (any, error) {
		asked <- string(r.Params)
		return &client.Acked{Removed: removed}, nil
	})
	remove := func(sure bool) (int, string) {
		return f.ask(browser, "POST", page+"remove", fmt.Sprintf(`{"seq":7,"peer":%q,"id":%q,"sure":%v}`, deskID, clitest.SomeID, sure), header...)
	}
	if status, _ := remove(false); status != http.StatusBadRequest {
		t.Errorf("removed without a second click: %d", status)
	}
	if status, text := remove(true); status != 200 || text != "{}" {
		t.Error(status, text)
	}
	for _, want := range []string{`{"seqs":[7]}`, fmt.Sprintf(`{"ids":[%q],"peers":[%q]}`, clitest.SomeID, deskID)} {
		if got := <-asked; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	removed = 0
	if status, text := remove(true); status != http.StatusConflict || !strings.Contains(text, "not in the inbox any more") {
		t.Errorf("%d %q", status, text)
	}
}

// TestWithdraw: a message that is kept is withdrawn after a second click; a delegation is never cancelled.
// holds: security.md#the-page-of-acpctl-web
func TestWithdraw(t *testing.T) {
	f := newFixture(t, nil)
	browser, page := f.letIn()
	header := []string{"Origin", fmt.Sprintf("http://127.0.0.1:%d", f.Port()), "Content-Type", "application/json"}
	cancelled := make(chan wire.MessageID, 4)
	f.daemon.SetHandler(client.MethodCancel, func(r *jsonrpc.Request) (any, error) {
		var p client.CancelParams
		err := r.ReadParams(&p)
		cancelled <- p.Ref
		return &client.CancelAnswer{Ref: p.Ref, Payload: kinds.EncodePayload(&kinds.Ack{Accepted: true})}, err
	})
	withdraw := func(sure bool) (int, string) {
		return f.ask(browser, "POST", page+"withdraw", fmt.Sprintf(`{"id":%q,"sure":%v}`, clitest.SomeID, sure), header...)
	}
	task := &client.Task{ID: clitest.SomeID, Kind: kinds.KindQuery, Peer: "desk", Direction: client.Given, State: client.TaskKept, Kept: &client.Kept{ID: clitest.SomeID}}
	f.daemon.SetAnswer(client.MethodTask, task)
	if status, _ := withdraw(false); status != http.StatusBadRequest || len(cancelled) > 0 {
		t.Errorf("withdrawn without a second click: %d", status)
	}
	if status, text := withdraw(true); status != 200 || text != "{}" || <-cancelled != clitest.SomeID {
		t.Error(status, text)
	}
	f.daemon.SetAnswer(client.MethodTask, &client.Task{ID: clitest.SomeID, Peer: "desk", Direction: client.Given, State: client.TaskAccepted})
	if status, text := withdraw(true); status != http.StatusConflict || !strings.Contains(text, "not kept any more") || len(cancelled) > 0 {
		t.Errorf("%d %q", status, text)
	}
}

// TestWholeMessages: a message opens to all that it says, as far as the daemon keeps that, and is found by a word of it.
func TestWholeMessages(t *testing.T) {
	f := newFixture(t, nil)
	browser, page := f.letIn()
	long := strings.Repeat("x", 2*maxShown)
	entries := []client.TrafficEntry{
		{Seq: 3, Kind: kinds.KindQuery, Text: "Which branch …", Payload: kinds.EncodePayload(&kinds.Query{Question: "Which branch\n\x1b[31mhas " + long + "?"}), Answer: "The Main one", AnswerPayload: kinds.EncodePayload(&kinds.Response{Summary: "The Main one"})},
		{Seq: 5, Kind: kinds.KindNotify, Text: "a beginning…", Outcome: "held"},
		{Seq: 6, Kind: "newer", Payload: wire.Payload(`{"a":1}`), AnswerPayload: wire.Payload(`{"b":2}`)},
	}
	f.daemon.SetHandler(client.MethodTraffic, func(r *jsonrpc.Request) (any, error) {
		var p client.TrafficParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		a := &client.TrafficAnswer{Next: max(p.After, 6)}
		for _, e := range entries {
			if e.Seq > p.After && p.Payload {
				e.ID, e.Peer, e.Direction, e.At = clitest.SomeID, deskID, client.In, began
				a.Entries, a.Next = []client.TrafficEntry{e}, e.Seq
				break
			}
		}
		return a, nil
	})
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"message", `{"seq":3}`, 200, `{"text":"Which branch\nhas ` + long + `?","answer":"The Main one","cut":false}`},
		{"message", `{"seq":5}`, 200, `{"text":"a beginning…","answer":"","cut":true}`},
		{"message", `{"seq":6}`, 200, `{"text":"{\"a\":1}","answer":"{\"b\":2}","cut":false}`},
		{"message", `{"seq":4}`, http.StatusConflict, "does not keep this message any more"},
		{"message", `{"seq":9}`, http.StatusConflict, "does not keep this message any more"},
		{"message", `{"seq":0}`, http.StatusConflict, "does not keep this message any more"},
		{"find", `{"text":"X?"}`, 200, `{"seqs":[3]}`},
		{"find", `{"text":"main"}`, 200, `{"seqs":[3]}`},
		{"find", `{"text":"beginning"}`, 200, `{"seqs":[5]}`},
		{"find", `{"text":"nobody"}`, 200, `{"seqs":[]}`},
	} {
		status, text := f.ask(browser, "POST", page+c.path, c.body, "Origin", fmt.Sprintf("http://127.0.0.1:%d", f.Port()), "Content-Type", "application/json")
		if status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d %q, want %q", c.path, c.body, status, text, c.want)
		}
	}
}
