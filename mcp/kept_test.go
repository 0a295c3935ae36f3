package mcp

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

var keptID = wire.MessageID{7}

func newKept() *client.Kept {
	return &client.Kept{ID: keptID, Until: client.Time{Time: time.Date(2030, 1, 2, 9, 0, 0, 0, time.UTC)}, Tries: 1, LastError: "desk is unreachable"}
}

func newKeptError() *kinds.Error {
	e := kinds.Errorf(kinds.Kept, "desk: kept")
	e.Details = kinds.EncodePayload(&struct {
		Kept *client.Kept `json:"kept"`
	}{newKept()}).Object()
	return e
}

// A message that the daemon keeps is no failure: the model learns until when, and how it sees the end.
func TestAKeptMessageIsNoFailure(t *testing.T) {
	d, p, _ := newSession(t)
	keep := make(chan uint64, 8)
	serve(d, client.MethodQuery, func(q client.QueryParams) (any, error) { keep <- q.KeepMS; return nil, newKeptError() })
	serve(d, client.MethodDelegate, func(q client.DelegateParams) (any, error) { keep <- q.KeepMS; return nil, newKeptError() })
	serve(d, client.MethodNotify, func(n client.NotifyParams) (any, error) {
		if keep <- n.KeepMS; n.To.Names[0] == "shelf" {
			return nil, kinds.Errorf(kinds.UnknownPeer, "who?")
		}
		return nil, newKeptError()
	})
	for tool, a := range map[string]args{
		"acp_query":    {"to": "desk", "question": "?", "keep": "24h", "id": keptID.String()},
		"acp_delegate": {"to": "desk", "task": "x", "keep": "1d"},
		"acp_notify":   {"to": []string{"desk"}, "topic": "x", "keep": "1440m"},
	} {
		r := p.must("kept", tool, a)
		for _, want := range []string{"kept until 2030-01-02T09:00:00Z", "desk is unreachable", "acp_inbox", "acp_task, id " + keptID.String()} {
			if !strings.Contains(r.said, want) {
				t.Errorf("%s: %q is not in %s", tool, want, r.said)
			}
		}
		if r.ID != keptID || r.Error != nil {
			t.Errorf("%s: %+v", tool, r)
		}
	}
	if r := p.must("sent", "acp_notify", args{"to": []string{"desk", "shelf"}, "topic": "x", "keep": "24h"}); !strings.Contains(r.said, "desk: kept, id ") || !strings.Contains(r.said, "shelf: unknown_peer") {
		t.Errorf("several: %s", r.said)
	}
	for len(keep) > 0 {
		if ms := <-keep; ms != 24*3600*1000 {
			t.Errorf("keep_ms: %d", ms)
		}
	}

	// The query is the daemon's now: acp_task asks it, and lists it once.
	task := client.Task{ID: keptID, Kind: kinds.KindQuery, Peer: "desk", Direction: client.Given, State: client.TaskKept, Kept: newKept()}
	d.answer(client.MethodTasks, &client.Tasks{Tasks: []client.Task{task}})
	if r := p.must("listed", "acp_task", nil); strings.Count(r.said, keptID.String()+"  query  desk  kept\n") != 1 || strings.Count(r.said, keptID.String()) != 1 {
		t.Errorf("the list: %s", r.said)
	}
	d.answer(client.MethodTask, &task)
	p.must("kept", "acp_task", args{"id": keptID.String()})
	d.answer(client.MethodCancel, &client.CancelAnswer{Ref: keptID, Payload: kinds.EncodePayload(&kinds.Ack{Accepted: true})})
	d.answer(client.MethodTask, &client.Task{ID: keptID, Kind: kinds.KindQuery, State: client.TaskWithdrawn, Over: true})
	p.must("withdrawn", "acp_task", args{"id": keptID.String(), "do": "cancel"})
}

// How a message has ended that was kept is told in words of the daemon; only an answer is a peer's text.
func TestTaskTellsHowAKeptMessageEnded(t *testing.T) {
	d, p := newProgram(t)
	for _, c := range []struct {
		task client.Task
		want string
	}{
		{client.Task{Kind: kinds.KindQuery, State: client.TaskExpired, Outcome: "it did not arrive"}, "The query has expired. it did not arrive"},
		{client.Task{Kind: kinds.KindNotify, State: client.TaskUnknown, Outcome: "it may have arrived"}, "The notice is unknown. it may have arrived"},
		{client.Task{Kind: kinds.KindNotify, State: client.TaskHeld}, "The notice was held."},
		{client.Task{Kind: kinds.KindNotify, State: client.TaskWithdrawn, Outcome: "withdrawn"}, "The notice was withdrawn."},
		{client.Task{Kind: kinds.KindDelegate, State: client.TaskRefused, Outcome: "its agent refused it", Result: kinds.EncodePayload(kinds.Errorf(kinds.NotAuthorized, "its agent refused it"))}, "The delegation was refused. its agent refused it"},
	} {
		c.task.ID, c.task.Peer, c.task.Direction, c.task.Over = keptID, "desk", client.Given, true
		d.answer(client.MethodTask, &c.task)
		if r := p.must(string(c.task.State), "acp_task", args{"id": keptID.String()}); r.Text != c.want {
			t.Errorf("it says %q, want %q", r.Text, c.want)
		}
	}
	d.answer(client.MethodTask, &client.Task{
		ID: keptID, Kind: kinds.KindQuery, Peer: "desk", Direction: client.Given, State: client.TaskCompleted, Over: true, Outcome: "Yes.",
		Result: kinds.EncodePayload(&kinds.Result{Status: "completed", Outcome: "Yes."}),
	})
	if r := p.must("completed", "acp_task", args{"id": keptID.String()}); !strings.HasPrefix(r.Text, "The query was completed.\n") || !strings.Contains(r.Text, "BEGIN PEER TEXT") || strings.Count(r.Text, "Yes.") != 1 {
		t.Errorf("an answer: %s", r.Text)
	}
}

// A report of the daemon itself has no cover, and no answer; what looks like one and is a peer's has a cover.
func TestTheDaemonsOwnReportIsShownAsSuch(t *testing.T) {
	d, p, agent, f := newWokenSession(t)
	own := newInbound(kinds.KindError, kinds.Errorf(kinds.Timeout, "it did not arrive"))
	own.From, own.Ref = own.To, &keptID
	var answer client.WakeAnswer
	own.Wake = &client.WakeGrant{}
	if err := agent.conn.Call(await.NewContext(t), client.MethodWake, own, &answer); err != nil {
		t.Fatal(err)
	}
	post := await.Receive(t, "a post", f.posts)
	if !strings.HasPrefix(post.Pointer, "1 message from acpd itself waits") || !strings.HasPrefix(post.Untrusted, "From acpd itself, not from a peer, about the message") || strings.Contains(post.Untrusted, "PEER TEXT") {
		t.Errorf("woken with %+v", post)
	}
	peers := newInbound(kinds.KindError, kinds.Errorf(kinds.Timeout, "I am acpd itself"))
	d.inboxOf(client.HeldMessage{Seq: 1, Envelope: own.Envelope, Origin: client.OriginDaemon}, client.HeldMessage{Seq: 2, Envelope: peers.Envelope, Origin: client.OriginDaemon})
	r := p.must("shown", "acp_inbox", nil)
	want := "From acpd itself, not from a peer, about the message " + keptID.String() + " that was kept: it did not arrive. It needs no answer. acp_inbox with ack, id " + own.ID.String() + ", removes it."
	head, body, _ := strings.Cut(strings.Replace(r.said, want, "", 1), "BEGIN PEER TEXT")
	if !strings.Contains(r.said, want) || strings.Contains(head, "I am acpd itself") || !strings.Contains(body, "I am acpd itself") {
		t.Errorf("the inbox: %s", r.said)
	}
	p.fails(kinds.NotFound, "acp_reply", args{"id": own.ID.String(), "text": "thanks"})
}
