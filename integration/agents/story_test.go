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
	at   time.Time
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
	return repeat(from, to, s)
}

// repeat sends a query again.
func repeat(from *live.Machine, to string, s sent) sent {
	answer := make(chan answered, 1)
	s.answer = answer
	go func() {
		a, err := from.Client.Query(context.Background(), client.QueryParams{
			Head: client.Head{ID: s.id}, To: to, Payload: kinds.EncodePayload(&kinds.Query{Question: s.text, DeadlineMS: uint64(questionTime.Milliseconds())}),
		})
		end := answered{err: err, at: time.Now()}
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
	if r := receive(t, "a receipt", s.receipt); r.State != want {
		t.Errorf("receipt %q, want %q", r.State, want)
	}
}

// handOver sends notices to an agent of a machine until one is handed, and returns that one. A daemon waits 4 s for
// the proof that a notice is read; where others compute, a session may take longer. So a peer may wake it more often.
func handOver(t *testing.T, from, to *live.Machine, agent string, reader *model) (handed sent) {
	t.Helper()
	allowManyTurns(to)
	until(t, "a notice is handed", func() bool {
		handed = notify(from, to.Name+"/"+agent)
		r := receive(t, "a receipt", handed.receipt)
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

// load is a step by which Claude Code's model gets a tool that it is not shown at once.
func load(tool string) step {
	return call("ToolSearch", map[string]any{"query": "select:mcp__acp__" + tool, "max_results": 5})
}

// What is handed was read: a notice for Claude Code when the model has acknowledged it, one for
// Codex when Codex has proved that it is in the model's input. It is in no inbox any more.
func TestNoticeIsHanded(t *testing.T) {
	t.Parallel()
	desk, laptop := newMachines(t)
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
		until(t, "the inbox is empty", func() bool { return !s.isInInbox(laptop) })
		if model.find("user", s.text) != nil {
			t.Errorf("%s: the model is given the peer's text as the user's", agent)
		}
	}
}

// A message that Claude Code holds for its user is held, and lies in the inbox.
func TestNoticeIsHeld(t *testing.T) {
	t.Parallel()
	desk, laptop := newMachines(t)
	allowWake(laptop, desk, false)
	p := newPerson(t)
	p.write(".claude/settings.json", `{"crossSessionInbound":"hold"}`)
	p.startClaude(serverCommand(laptop))
	awaitSession(laptop, "claude")
	s := notify(desk, "laptop/claude")
	s.expectReceipt(t, client.Held)
	if !s.isInInbox(laptop) {
		t.Error("it is not in the inbox")
	}
	if p.model.find("user", "1 message from desk waits") != nil {
		t.Error("the model is given the line")
	}
}

// A peer that the owner does not allow wakes nobody: its notice is held, and the model finds it
// at its next look.
func TestNobodyWakesWithoutTheOwnersWord(t *testing.T) {
	t.Parallel()
	desk, laptop := newMachines(t)
	p := newPerson(t, rule{"look", []step{call("acp_inbox", map[string]any{})}})
	c := p.startClaude(serverCommand(laptop))
	awaitSession(laptop, "claude")
	s := notify(desk, "laptop/claude")
	s.expectReceipt(t, client.Held)
	time.Sleep(2 * time.Second) // time for a wake: nothing tells that there will be none
	if p.model.find("user", "1 message from desk waits") != nil {
		t.Error("it is woken")
	}
	c.say("look")
	p.model.awaitRequest("result", s.text)
}

// A notice for a busy session is held, and wakes the session when its turn has ended, and not
// between two tools of the turn.
func TestNoticeForABusySession(t *testing.T) {
	t.Parallel()
	desk, laptop := newMachines(t)
	allowWake(laptop, desk, false)
	p := newPerson(t, reading())
	c := p.startClaude(serverCommand(laptop))
	awaitSession(laptop, "claude")
	end := make(chan struct{})
	peers := call("acp_peers", map[string]any{})
	peers.pause = end
	p.model.on("work hard", peers, peers, say("worked"))
	c.say("work hard")
	p.model.awaitRequest("user", "work hard")
	s := notify(desk, "laptop/claude")
	s.expectReceipt(t, client.Held)
	close(end)
	p.model.awaitRequest("result", s.text)
	for _, r := range p.model.list() {
		if strings.Contains(r.body, "1 message from desk waits") && !r.has("assistant", "worked") {
			t.Error("it is woken in the middle of a turn")
		}
	}
	until(t, "the inbox is empty", func() bool { return !s.isInInbox(laptop) })
}

// The mode counts that the session is in when the message comes.
func TestModeIsSwitchedBetweenNotices(t *testing.T) {
	t.Parallel()
	desk, laptop := newMachines(t)
	allowWake(laptop, desk, false)
	p := newPerson(t, reading())
	c := p.startClaude(serverCommand(laptop), "--allow-dangerously-skip-permissions")
	awaitSession(laptop, "claude")
	handOver(t, desk, laptop, "claude", p.model)
	c.setMode("bypassPermissions")
	second := notify(desk, "laptop/claude")
	second.expectReceipt(t, client.Held)
	if !second.isInInbox(laptop) || p.model.find("user", second.id.String()) != nil {
		t.Error("a session without permissions is woken")
	}
}

// Daemons are started anew while sessions run: no message is lost, and sessions are woken as
// before.
func TestDaemonsAreRestarted(t *testing.T) {
	t.Parallel()
	desk, laptop := newMachines(t)
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
	until(t, "the daemons are connected", func() bool { return desk.FindPeer(laptop.ID).State == client.PeerConnected })
	if !held.isInInbox(laptop) && p.model.find("result", held.text) == nil {
		t.Error("a message that was held is gone")
	}
	close(end)
	p.model.awaitRequest("user", "1 message from desk waits")
	p.model.awaitRequest("result", held.text)
	c.awaitTurns(3)
	handOver(t, desk, laptop, "claude", p.model)
}

// The daemon of either side is started anew while a session answers a question. Who asked hears at
// once that it is not known whether the question arrived, and gets the answer by repeating it under
// its id.
func TestDaemonsAreRestartedInAQuery(t *testing.T) {
	t.Parallel()
	for _, restarted := range []string{"desk", "laptop"} {
		t.Run(restarted, func(t *testing.T) {
			t.Parallel()
			desk, laptop := newMachines(t)
			allowWake(laptop, desk, false)
			end := make(chan struct{})
			late := reply("it is forty-two")
			late.pause = end
			worker := newPerson(t, rule{"Call acp_inbox.", []step{call("acp_inbox", map[string]any{}), late}})
			worker.configureCodex(serverCommand(laptop))
			worker.startCodex().awaitScreen("done")
			awaitSession(laptop, "codex")
			s := query(desk, "laptop")
			worker.model.awaitRequest("result", s.text)
			m := map[string]*live.Machine{"desk": desk, "laptop": laptop}[restarted]
			m.KillDaemon()
			if end := receive(t, "an answer", s.answer); end.err == nil {
				t.Fatalf("an answer of nobody: %s", end.text)
			} else {
				t.Logf("who asked hears: %v", end.err)
			}
			m.StartDaemon()
			awaitSession(laptop, "codex")
			until(t, "the daemons are connected", func() bool { return desk.FindPeer(laptop.ID).State == client.PeerConnected })
			again := repeat(desk, "laptop", s)
			until(t, "the question is there again", func() bool { a := findAgent(laptop, "codex"); return a != nil && a.Active == 1 })
			close(end)
			if end := receive(t, "an answer", again.answer); end.err != nil || !strings.Contains(end.text, "forty-two") {
				t.Errorf("repeated: %s, %v", end.text, end.err)
			}
		})
	}
}

// A session is woken by the result of work that it gave away, when its own turn is long over, if
// its owner said that answers wake it, and by nothing else.
func TestWokenByTheResult(t *testing.T) {
	t.Parallel()
	task := map[string]any{"to": "laptop/worker", "task": "count"}
	for name, c := range map[string]struct {
		steps []step
		start func(*person, *live.Machine) (say func(string))
	}{
		"claude": {
			[]step{load("acp_delegate"), call("mcp__acp__acp_delegate", task)},
			func(p *person, m *live.Machine) func(string) { return p.startClaude(serverCommand(m)).say },
		},
		"codex": {
			[]step{call("acp_delegate", task)},
			func(p *person, m *live.Machine) func(string) {
				p.configureCodex(serverCommand(m))
				c := p.startCodex()
				c.awaitScreen("done")
				return c.say
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desk, laptop := newMachines(t)
			if _, err := desk.Client.SetWakeAnswers(await.NewContext(t), client.WakeAnswersParams{On: true}); err != nil {
				t.Fatal(err)
			}
			worker, taken := attachWorker(t, laptop)
			p := newPerson(t, reading(), rule{"hand it over", append(c.steps, say("handed over"))})
			session := c.start(p, desk)
			awaitSession(desk, name)
			session("hand it over")
			ref := receive(t, "the work", taken)
			p.model.awaitRequest("result", ref.String()) // the turn's last request
			notify(laptop, "desk/"+name).expectReceipt(t, client.Held)
			if _, err := worker.SendResult(await.NewContext(t), client.ResultParams{
				Ref: ref, Payload: kinds.EncodePayload(&kinds.Result{Status: "completed", Outcome: "counted to seven"}),
			}); err != nil {
				t.Fatal(err)
			}
			p.model.awaitRequest("user", "1 message from laptop ")
			p.model.awaitRequest("result", "counted to seven")
			if n := findAgent(desk, name).Woken.Hour; n != 1 {
				t.Errorf("%d turns were woken", n)
			}
		})
	}
}

// attachWorker attaches an agent that takes work on a machine, and returns what it is given.
func attachWorker(t *testing.T, m *live.Machine) (worker *client.Client, taken <-chan wire.MessageID) {
	t.Helper()
	worker = &client.Client{Socket: m.SocketPath()}
	given := make(chan wire.MessageID, 1)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		worker.Attach(ctx, client.AttachParams{Name: "worker"}, client.Handler{Delegate: func(_ context.Context, in *client.Inbound) (*kinds.Ack, error) {
			given <- in.ID
			return nil, nil
		}})
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		worker.Close()
	})
	awaitSession(m, "worker")
	return worker, given
}

// Two sessions whose models answer each other for ever, and never say what about, are stopped.
func TestSessionsAnswerEachOther(t *testing.T) {
	t.Parallel()
	desk, laptop := newMachines(t)
	allowWake(laptop, desk, false)
	allowWake(desk, laptop, false)
	again := func(more ...step) rule {
		return rule{"Call acp_inbox.", append([]step{call("acp_inbox", map[string]any{}), reading().steps[1]}, more...)}
	}
	tell := func(to string) map[string]any { return map[string]any{"to": []string{to}, "topic": "and you?"} }
	one := newPerson(t, again(load("acp_notify"), call("mcp__acp__acp_notify", tell("laptop/codex"))))
	one.model.on("begin", load("acp_notify"), call("mcp__acp__acp_notify", tell("laptop/codex")))
	two := newPerson(t, rule{"comes with this line", []step{call("acp_notify", tell("desk/claude"))}})
	claude := one.startClaude(serverCommand(desk))
	awaitSession(desk, "claude")
	two.configureCodex(serverCommand(laptop))
	two.startCodex().awaitScreen("done")
	awaitSession(laptop, "codex")
	claude.say("begin")
	countTurns := func() int {
		a, b := findAgent(desk, "claude"), findAgent(laptop, "codex")
		if a == nil || b == nil || a.Woken == nil || b.Woken == nil {
			return 0
		}
		return a.Woken.Hour + b.Woken.Hour
	}
	var told []string
	for end := time.Now().Add(patience); len(told) == 0; time.Sleep(100 * time.Millisecond) {
		if told = append(findRefusals(one.model), findRefusals(two.model)...); time.Now().After(end) {
			t.Fatalf("no bound within %s and %d woken turns", patience, countTurns())
		}
	}
	n := countTurns()
	t.Logf("%d woken turns, then: %s", n, told[0])
	if n < 2 || n > 20 {
		t.Errorf("%d woken turns", n)
	}
	until(t, "an owner is told", func() bool { return isToldOfABound(desk, "claude") || isToldOfABound(laptop, "codex") })
	time.Sleep(3 * time.Second) // time for more turns: nothing tells that there will be none
	if more := countTurns(); more > n+1 {
		t.Errorf("it goes on: %d woken turns, then %d", n, more)
	}
}

// isToldOfABound reports whether the status of a machine warns that an agent was not let send more.
func isToldOfABound(m *live.Machine, agent string) bool {
	m.T.Helper()
	status, err := m.Client.Status(await.NewContext(m.T))
	if err != nil {
		m.T.Fatal(err)
	}
	return slices.ContainsFunc(status.Warnings, func(w string) bool { return strings.Contains(w, agent+" was not let send more") })
}

// findRefusals returns the results of tools by which the model was told that it is enough.
func findRefusals(m *model) (all []string) {
	for _, r := range m.list() {
		for _, i := range r.items {
			if i.role == "result" && (strings.Contains(i.text, string(kinds.LoopDetected)) || strings.Contains(i.text, string(kinds.Overloaded))) {
				all = append(all, fmt.Sprintf("%.200q", i.text))
			}
		}
	}
	return all
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
