//go:build agents

package agents

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// sent is a message from one machine to another, and what its sender heard.
type sent struct {
	id      wire.MessageID
	text    string // stands in it, and in no other
	receipt <-chan client.Receipt
	answer  <-chan answered
}

// questionTime is how long a question has: a session takes seconds to be woken and to answer, and more on a busy machine.
const questionTime = 2 * time.Minute

// answered is the end of a query.
type answered struct {
	text string
	err  error
}

// notify sends a notice.
func notify(from *live.Machine, to string) sent {
	from.T.Helper()
	s := sent{id: wire.NewMessageID()}
	s.text = "notice-" + s.id.String()
	receipt := make(chan client.Receipt, 1)
	s.receipt = receipt
	go func() {
		r, err := from.Client.Notify(context.Background(), client.NotifyParams{
			Head: client.Head{ID: s.id}, To: client.To(to), Payload: kinds.EncodePayload(&kinds.Notify{Topic: s.text}),
		})
		if err != nil {
			r = &client.Receipt{State: client.ReceiptState(err.Error())}
		}
		receipt <- *r
	}()
	return s
}

// query sends a query.
func query(from *live.Machine, to string) sent {
	from.T.Helper()
	s := sent{id: wire.NewMessageID()}
	s.text = "question-" + s.id.String()
	answer := make(chan answered, 1)
	s.answer = answer
	go func() {
		a, err := from.Client.Query(context.Background(), client.QueryParams{
			Head: client.Head{ID: s.id}, To: to, Payload: kinds.EncodePayload(&kinds.Query{Question: s.text, DeadlineMS: uint64(questionTime.Milliseconds())}),
		})
		end := answered{err: err}
		if err == nil {
			end.text = string(a.Payload)
		}
		answer <- end
	}()
	return s
}

// expectReceipt waits for the receipt.
func (s sent) expectReceipt(t *testing.T, want client.ReceiptState) {
	t.Helper()
	if r := await.Receive(t, "a receipt", s.receipt); r.State != want {
		t.Errorf("receipt %q, want %q", r.State, want)
	}
}

// handOver sends notices to an agent of a machine until one is handed, and returns that one. A daemon waits 4 s for
// the proof that a notice is read; where others compute, a session may take longer. So a peer may wake it more often.
func handOver(t *testing.T, from, to *live.Machine, agent string, reader *model) (handed sent) {
	t.Helper()
	allowManyTurns(to)
	await.Until(t, "a notice is handed", func() bool {
		handed = notify(from, to.Name+"/"+agent)
		r := await.Receive(t, "a receipt", handed.receipt)
		reader.awaitRequest("result", handed.text)
		t.Logf("receipt: %q", r.State)
		return r.State == client.Handed
	})
	return handed
}

// isInInbox reports whether a message lies in a machine's inbox.
func (s sent) isInInbox(m *live.Machine) bool {
	m.T.Helper()
	inbox, err := m.Client.Inbox(await.NewContext(m.T), client.InboxParams{Peek: true, Limit: 100})
	if err != nil {
		m.T.Fatal(err)
	}
	return slices.ContainsFunc(inbox.Messages, func(h client.HeldMessage) bool { return h.Envelope.ID == s.id })
}

// reading is the rule of a model that reads what wakes it, and acknowledges it.
func reading() rule {
	ack := step{tool: "acp_inbox", input: func(q *request) map[string]any {
		return map[string]any{"ack": []any{reply("").input(q)["id"]}}
	}}
	return rule{"Call acp_inbox.", []step{call("acp_inbox", map[string]any{}), ack}}
}

// What is handed was read: a notice for Claude Code when the model has acknowledged it, one for
// Codex when Codex has proved that it is in the model's input. It is in no inbox any more.
func TestNoticeIsHanded(t *testing.T) {
	t.Parallel()
	desk, laptop := live.NewFriends(t)
	allowWake(laptop, desk, false)
	reader, other := newPerson(t, reading()), newPerson(t)
	reader.startClaude(serverCommand(laptop))
	awaitSession(laptop, "claude")
	other.configureCodex(serverCommand(laptop))
	other.startCodex().awaitScreen("done")
	awaitSession(laptop, "codex")
	for agent, model := range map[string]*model{"claude": reader.model, "codex": other.model} {
		began := time.Now()
		s := handOver(t, desk, laptop, agent, model)
		woken := model.awaitRequest("user", s.id.String())
		t.Logf("%s: from the first notice to the request at the woken model: %s", agent, woken.at.Sub(began).Round(time.Millisecond))
		model.awaitRequest("result", s.text)
		await.Until(t, "the inbox is empty", func() bool { return !s.isInInbox(laptop) })
		if model.find("user", s.text) != nil {
			t.Errorf("%s: the model is given the peer's text as the user's", agent)
		}
	}
}

// Daemons are started anew while sessions run: no message is lost, and sessions are woken as
// before.
func TestDaemonsAreRestarted(t *testing.T) {
	t.Parallel()
	desk, laptop := live.NewFriends(t)
	allowWake(laptop, desk, false)
	p := newPerson(t, reading())
	c := p.startClaude(serverCommand(laptop))
	awaitSession(laptop, "claude")
	end := make(chan struct{})
	p.model.on("work hard", step{text: "worked", pause: end})
	c.say("work hard")
	p.model.awaitRequest("user", "work hard")
	held := notify(desk, "laptop/claude")
	held.expectReceipt(t, client.Held)
	for _, m := range []*live.Machine{laptop, desk} {
		m.KillDaemon()
		m.StartDaemon()
	}
	awaitSession(laptop, "claude")
	await.Until(t, "the daemons are connected", func() bool { return desk.FindPeer(laptop.ID).State == client.PeerConnected })
	if !held.isInInbox(laptop) && p.model.find("result", held.text) == nil {
		t.Error("a message that was held is gone")
	}
	close(end)
	p.model.awaitRequest("user", "1 message from desk waits")
	p.model.awaitRequest("result", held.text)
	c.awaitTurns(3)
	handOver(t, desk, laptop, "claude", p.model)
}

// A folder that has an MCP server of its own choice, with an environment of its own choice, does
// not reach another session with it.
func TestForeignSocketIsRefused(t *testing.T) {
	t.Parallel()
	victim := newPerson(t)
	v, _ := victim.startChild()
	hostile := newPerson(t)
	sockets := live.MakeTempDir(t)
	command := childCommand(t, sockets)
	foreign := fmt.Sprintf("CLAUDE_CODE_MESSAGING_SOCKET=%s/cc-socks/%d.sock", victim.home, v.Cmd.Process.Pid)
	hostile.startClaude(append([]string{"/usr/bin/env", foreign}, command...))
	if f := awaitChild(t, sockets).look(); !strings.Contains(f.Err, "has not started this one") {
		t.Errorf("found %+v", f)
	}
}
