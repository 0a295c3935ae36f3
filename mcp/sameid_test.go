package mcp

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// shelf is a second peer.
var shelf = identity.ID{0x5e, 0x1f}

func (d *fakeDaemon) addShelf() {
	var peers client.Peers
	for id, name := range map[identity.ID]string{desk: "desk", shelf: "shelf"} {
		peers.Peers = append(peers.Peers, client.Peer{ID: id, Name: name, State: client.PeerConnected, Addrs: []string{}})
	}
	d.answer(client.MethodPeers, &peers)
}

// copyFrom returns a message of shelf's that has the id of another.
func copyFrom(id wire.MessageID, kind string, payload any) *client.Inbound {
	in := newInbound(kind, payload)
	in.ID, in.From, in.Name, in.DeadlineMS = id, shelf, "shelf", 60_000
	return in
}

// A query with the id of another peer's is another query: neither gets what the other is answered.
func TestQueriesOfOneIDAreTwo(t *testing.T) {
	d, p, agent := newSession(t)
	d.addShelf()
	in, end := openQuery(t, agent, "What is it?", 0)
	p.awaitOpen(1)
	end2 := ask(t.Context(), agent, copyFrom(in.ID, kinds.KindQuery, &kinds.Query{Question: "And for me?"}))
	p.awaitOpen(2)
	r := p.fails(kinds.Invalid, "acp_reply", args{"id": in.ID.String(), "text": "42"})
	if !strings.Contains(r.Error.Message, "desk and shelf") {
		t.Errorf("%+v", r.Error)
	}
	p.must("answered", "acp_reply", args{"id": in.ID.String(), "from": "desk", "text": "42"})
	if got := await.Receive(t, "desk's answer", end); got.err != nil || !strings.Contains(string(got.answer), "42") {
		t.Errorf("%s, %v", got.answer, got.err)
	}
	p.fails(kinds.Invalid, "acp_reply", args{"id": in.ID.String(), "text": "43"}) // still not clear which
	p.must("answered", "acp_reply", args{"id": in.ID.String(), "from": shelf.String(), "text": "None."})
	if got := await.Receive(t, "shelf's answer", end2); got.err != nil || !strings.Contains(string(got.answer), "None.") {
		t.Errorf("%s, %v", got.answer, got.err)
	}
}

// A notice with the id of another peer's is another notice: to be answered, and to be removed.
func TestNoticesOfOneIDAreTwo(t *testing.T) {
	d, p, _ := newSession(t)
	d.addShelf()
	first := heldNotice(1, "one")
	second := client.HeldMessage{Seq: 2, Envelope: copyFrom(first.Envelope.ID, kinds.KindNotify, &kinds.Notify{Topic: "other"}).Envelope}
	d.inboxOf(first, second)
	sent := d.recordNotices()
	acks := record(d, client.MethodAck, func(client.AckParams) (any, error) { return &client.Acked{Removed: 1}, nil })
	id := first.Envelope.ID.String()
	p.must("shown", "acp_inbox", nil)
	if r := p.fails(kinds.Invalid, "acp_inbox", args{"ack": []string{id}}); !strings.Contains(r.Error.Message, "desk and shelf") {
		t.Errorf("%+v", r.Error)
	}
	p.must("shown", "acp_inbox", args{"ack": []string{id}, "peer": "shelf"})
	if got := await.Receive(t, "an ack", acks); len(got.Peers) != 1 || got.Peers[0] != shelf.String() {
		t.Errorf("removes the message of %v", got.Peers)
	}
	if r := p.fails(kinds.Invalid, "acp_reply", args{"id": id, "text": "x"}); !strings.Contains(r.Error.Message, "desk and shelf") {
		t.Errorf("%+v", r.Error)
	}
	if r := p.fails(kinds.NotFound, "acp_reply", args{"id": id, "from": "attic", "text": "x"}); !strings.Contains(r.Error.Message, "was sent by desk and shelf") {
		t.Errorf("%+v", r.Error)
	}
	for _, from := range []string{"desk", "desk/reviewer", desk.String(), desk.Label()} {
		p.must("handed", "acp_reply", args{"id": id, "from": from, "text": "x"})
		if got := await.Receive(t, "the reply", sent); got.To.Names[0] != desk.String() {
			t.Errorf("goes to %v", got.To.Names)
		}
		if got := await.Receive(t, "an ack", acks); len(got.Peers) != 1 || got.Peers[0] != desk.String() {
			t.Errorf("removes the message of %v", got.Peers)
		}
	}
}

// The answer to a question back is for who asked it, also if another peer's notice has its id.
func TestANoticeTakesNoAnswerOfAQuestion(t *testing.T) {
	d, p, _ := newSession(t)
	d.addShelf()
	question := wire.NewMessageID()
	d.answer(client.MethodTask, &client.Task{ID: wire.NewMessageID(), Peer: "desk", Direction: client.Given, State: client.TaskAccepted, Questions: 1, Question: &client.QuestionBack{ID: question, Text: "Which branch?"}})
	d.inboxOf(client.HeldMessage{Seq: 1, Envelope: copyFrom(question, kinds.KindNotify, &kinds.Notify{Topic: "other"}).Envelope})
	notices := d.recordNotices()
	answers := record(d, client.MethodAnswer, func(a client.AnswerParams) (any, error) {
		return &client.Answered{ID: a.Ref, Delegation: wire.NewMessageID()}, nil
	})
	reply := args{"id": question.String(), "text": "main"}
	p.must("shown", "acp_inbox", nil)
	p.must("question", "acp_task", args{"id": wire.NewMessageID().String()})
	if r := p.fails(kinds.Invalid, "acp_reply", reply); !strings.Contains(r.Error.Message, "desk and shelf") {
		t.Errorf("%+v", r.Error)
	}
	reply["from"] = "attic"
	p.fails(kinds.NotFound, "acp_reply", reply)
	reply["from"] = "desk"
	p.call("acp_reply", reply)
	await.Receive(t, "an answer", answers)
	reply["from"] = "shelf"
	p.call("acp_reply", reply)
	if await.Receive(t, "a notice", notices); len(notices)+len(answers) > 0 {
		t.Error("both get both")
	}
	reply["from"], reply["status"] = "desk", "failed"
	p.fails(kinds.Invalid, "acp_reply", reply)
}
