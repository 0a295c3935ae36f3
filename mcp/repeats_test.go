package mcp

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// errPerhaps is the error of a message that may have arrived.
var errPerhaps = kinds.Errorf(kinds.Unreachable, "no answer").WithDelivered(kinds.DeliveredUnknown)

// The same reply to the same message has the same id, and takes effect once. Another text is another
// message.
func TestARepeatedReplyIsOneMessage(t *testing.T) {
	d, p, _ := newSession(t)
	one, two := heldNotice(1, "one"), heldNotice(2, "two")
	d.inboxOf(one, two)
	sent := record(d, client.MethodNotify, func(client.NotifyParams) (any, error) { return nil, errPerhaps })
	p.must("shown", "acp_inbox", nil)
	reply := func(to client.HeldMessage, text string) wire.MessageID {
		t.Helper()
		r := p.fails(kinds.Unreachable, "acp_reply", args{"id": to.Envelope.ID.String(), "text": text, "data": args{"sure": true}})
		if !strings.Contains(r.Error.Remedy, "call acp_reply again with the same arguments") {
			t.Errorf("%s", r.said)
		}
		return await.Receive(t, "a reply", sent).ID
	}
	first := reply(one, "Thanks.")
	if other := reply(one, "No thanks."); other == first {
		t.Error("another text has the same id")
	}
	if other := reply(two, "Thanks."); other == first {
		t.Error("a reply to another message has the same id")
	}
	for range 16 {
		if again := reply(one, "Thanks."); again != first {
			t.Errorf("repeated as %s, first %s", again, first)
		}
	}
	d, p, _ = newSession(t)
	d.inboxOf(one)
	sent = record(d, client.MethodNotify, func(client.NotifyParams) (any, error) { return nil, errPerhaps })
	p.must("shown", "acp_inbox", nil)
	if other := reply(one, "Thanks."); other == first {
		t.Error("another session's reply has the same id")
	}
}

// A partial result that may have arrived is repeated under the same id, also after another one has arrived. One that
// has arrived may be reported again.
func TestARepeatedPartialResultIsOneMessage(t *testing.T) {
	d, p, agent := newSession(t)
	in := openDelegation(t, p, agent)
	partial := args{"id": in.ID.String(), "text": "Half.", "status": "partial"}
	sent := record(d, client.MethodResult, func(client.ResultParams) (any, error) { return nil, errPerhaps })
	p.fails(kinds.Unreachable, "acp_reply", partial)
	first := await.Receive(t, "a partial result", sent).ID
	reports := d.takeReports()
	p.must("handed", "acp_reply", args{"id": in.ID.String(), "text": "Another half.", "status": "partial"})
	if other := await.Receive(t, "another partial result", reports); other.ID == first {
		t.Error("another text has the same id")
	}
	for _, same := range []bool{true, false} {
		p.must("handed", "acp_reply", partial)
		if got := await.Receive(t, "a partial result", reports); (got.ID == first) != same {
			t.Errorf("it is sent as %s, first %s", got.ID, first)
		}
	}
}

// The error of a query that may have arrived says how acp_query repeats it, also if acp_task tells of it.
// A cancellation has no id to repeat it by.
func TestTasksSayHowToRepeat(t *testing.T) {
	d, p := newProgram(t)
	d.answer(client.MethodQuery, errPerhaps)
	d.answer(client.MethodCancel, errPerhaps)
	id := p.fails(kinds.Unreachable, "acp_query", args{"to": "desk", "question": "?"}).ID
	if r := p.fails(kinds.Unreachable, "acp_task", args{"id": id.String()}); !strings.Contains(r.Error.Remedy, "call acp_query again with id "+id.String()) {
		t.Errorf("%s", r.said)
	}
	if r := p.fails(kinds.Unreachable, "acp_task", args{"id": wire.NewMessageID().String(), "do": "cancel"}); strings.Contains(r.said, "with id") {
		t.Errorf("%s", r.said)
	}
}
