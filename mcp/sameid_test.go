package mcp

import (
	"context"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
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
	d := newFakeDaemon(t)
	d.addShelf()
	p, agent := attachedProgram(t, d, &Server{})
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

// A notice with the id of another peer's is another notice, also to a process that has shown neither.
func TestNoticesOfOneIDAreTwo(t *testing.T) {
	for _, show := range []bool{true, false} {
		d := newFakeDaemon(t)
		d.addShelf()
		p, _ := attachedProgram(t, d, &Server{})
		first := heldNotice(1, "one")
		second := client.HeldMessage{Seq: 2, Envelope: copyFrom(first.Envelope.ID, kinds.KindNotify, &kinds.Notify{Topic: "other"}).Envelope}
		d.inboxOf(first, second)
		sent := make(chan client.NotifyParams, 9)
		d.handleMethod(client.MethodNotify, func(_ context.Context, r *jsonrpc.Request) (any, error) {
			var n client.NotifyParams
			err := r.ReadParams(&n)
			sent <- n
			return &client.Receipt{ID: n.ID, State: client.Handed}, err
		})
		if show {
			p.must("shown", "acp_inbox", nil)
		}
		id := first.Envelope.ID.String()
		if r := p.fails(kinds.Invalid, "acp_reply", args{"id": id, "text": "x"}); !strings.Contains(r.Error.Message, "desk and shelf") {
			t.Errorf("%+v", r.Error)
		}
		p.must("handed", "acp_reply", args{"id": id, "from": "desk", "text": "x"})
		if got := await.Receive(t, "the reply", sent); got.To.Names[0] != desk.String() {
			t.Errorf("goes to %v", got.To.Names)
		}
	}
}

// A call to a peer does not follow from another peer's message, unless the model says so: neither
// the bound of that chain nor its thread is for it.
func TestOthersMessagesAreNoParents(t *testing.T) {
	d := newFakeDaemon(t)
	d.addShelf()
	p := startProgram(t, d, &Server{})
	heads := make(chan client.NotifyParams, 9)
	d.handleMethod(client.MethodNotify, func(_ context.Context, r *jsonrpc.Request) (any, error) {
		var n client.NotifyParams
		if err := r.ReadParams(&n); err != nil {
			return nil, err
		}
		heads <- n
		receipts := []client.Receipt{}
		for _, to := range n.To.Names {
			one := client.Receipt{To: to, ID: wire.NewMessageID(), State: client.Handed}
			if !n.Parent.IsZero() {
				one = client.Receipt{To: to, Error: kinds.Errorf(kinds.LoopDetected, "hops")}
			}
			receipts = append(receipts, one)
		}
		if n.To.List {
			return receipts, nil
		}
		if receipts[0].Error != nil {
			return nil, receipts[0].Error
		}
		return &receipts[0], nil
	})
	shown := wire.NewMessageID()
	p.server.parents.note(messageKey{shelf, shown})
	for to, want := range map[string]wire.MessageID{"desk": {}, "desk/reviewer": {}, desk.String(): {}, "shelf": shown, "shelf/builder": shown, shelf.String(): shown} {
		p.call("acp_notify", args{"to": to, "topic": "x"})
		if got := await.Receive(t, "a notice", heads); got.Parent != want {
			t.Errorf("to %s: parent %s, want %s", to, got.Parent, want)
		}
	}
	r := p.must("sent", "acp_notify", args{"to": []string{"shelf", "desk"}, "topic": "x"})
	if !strings.HasPrefix(r.said, "shelf: loop_detected") || !strings.Contains(r.said, "desk: handed") {
		t.Errorf("%s", r.said)
	}
	p.fails(kinds.LoopDetected, "acp_notify", args{"to": "desk", "topic": "x", "about": shown.String()})
}
