package up

import (
	"strconv"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/kinds"
)

// One question is about every session, and says what its answers mean. It has no default: Enter asks again. Where a rule of
// the peer's questions is there, for whichever program, it is not asked, and no rule is changed.
func TestUpAsksWhoMayWake(t *testing.T) {
	d := newUpDaemon(t, "claude", "codex")
	d.connect(t, "claude", "codex")
	const question = "May desk's questions begin a turn of your sessions?\nIn a turn your model reads the question and answers it, which costs money.\n" +
		"yes (y): they do so in every session that asks you before it runs tools, now and later. They also do so in a Claude Code in its default mode (auto), which decides itself what to ask you.\n" +
		"ask (a): they do so after your yes in acpctl approvals. Until then a session reads the question only if it has a turn anyway.\n" +
		"no (n): a question is refused, or waits for the session's next turn if it names the session. The next acpctl up asks again.\nTo let work that it delegates begin turns too: acpctl wake allow desk --kinds delegate\nType yes, ask or no: "
	for _, c := range []struct{ typed, did string }{
		{"y\na\n", "wake de5c query "},
		{"\n\nperhaps\nyes\n\nn\n", "wake de5c query "},
		{"ask\n", "wake de5c query  ask"},
		{"A\n", "wake de5c query  ask"},
		{"n\ny\n", ""},
		{"no\n", ""},
		{"perhaps\n", ""}, // and then the end of input
		{"", ""},
	} {
		d.setState([]client.Peer{desk})
		got := d.RunInteractive(c.typed, "up")
		if did := d.takeDone(); got.Code != 0 || did != c.did || strings.Count(got.Err, "May desk's") != 1 {
			t.Errorf("%q: %q, want %q: %+v", c.typed, did, c.did, got)
		}
		wantAll(t, got, question)
	}
	d.setState([]client.Peer{desk}, client.WakeRule{Peer: clitest.DeskID, Kind: kinds.KindQuery})
	got := d.RunInteractive("", "up")
	if did := d.takeDone(); did != "" || strings.Contains(got.Err, "begin a turn of your") {
		t.Errorf("what a rule says is asked for: %q, %+v", did, got)
	}
	wantAll(t, got, "This machine is laptop.\n", "desk answers in 0.400 ms. Its agents: codex, reviewer.\n", "Its questions may begin a turn of Codex (every session).\n", "\nSay to Claude Code: Ask desk which branch is checked out there.\n")
	// A yes would replace what the owner has set for single programs.
	for _, agent := range []string{"claude", "codex"} {
		d.setState([]client.Peer{desk}, client.WakeRule{Peer: clitest.DeskID, Kind: kinds.KindQuery, Agent: "codex"}, client.WakeRule{Peer: clitest.DeskID, Kind: kinds.KindNotify, Agent: "claude"})
		if agent == "codex" {
			d.rules = append(d.rules, client.WakeRule{Peer: clitest.DeskID, Kind: kinds.KindQuery, Agent: "claude"})
		}
		got = d.RunInteractive("y\n", "up")
		if did := d.takeDone(); did != "" || strings.Contains(got.Err, "begin a turn of your") {
			t.Errorf("with a rule for %s: %q, %+v", agent, did, got)
		}
		wantAll(t, got, "Its questions may begin a turn of Codex (codex).\n")
	}

	other := desk
	other.ID, other.Name = identity.ID{7}, "tower"
	d.setState([]client.Peer{desk, other})
	if got := d.RunInteractive("y\ny\ny\ny\n", "up"); d.takeDone() != "" || got.Code != 0 {
		t.Errorf("of several old peers each is asked for: %+v", got)
	}
}

// What a yes means for Claude Code is said only where Claude Code is connected.
func TestUpSpeaksOfClaudeCodeWhereItIs(t *testing.T) {
	d := newUpDaemon(t, "codex")
	d.connect(t, "codex")
	d.setState([]client.Peer{desk})
	got := d.RunInteractive("n\n", "up")
	if wantAll(t, got, "runs tools, now and later.\nask (a): "); strings.Contains(got.Err, "Claude") {
		t.Errorf("%+v", got)
	}
}

// The summary names all that may begin a turn, by rule: what is asked about first is not what begins a turn at once.
func TestUpSaysAllThatMayWake(t *testing.T) {
	d := newUpDaemon(t, "claude", "codex")
	d.connect(t, "claude", "codex")
	var rules []client.WakeRule
	for _, kind := range []string{kinds.KindQuery, kinds.KindDelegate, kinds.KindResult, kinds.KindError} {
		rules = append(rules, client.WakeRule{Peer: clitest.DeskID, Kind: kind, Ask: kind == kinds.KindDelegate})
	}
	d.setState([]client.Peer{desk}, rules...)
	wantAll(t, d.RunInteractive("", "up"), "  Its questions, results, errors may begin a turn of Codex (every session). Its work may begin a turn of Codex (every session) after your yes: acpctl approvals.\n")
	d.setState([]client.Peer{desk}, client.WakeRule{Peer: clitest.DeskID, Kind: kinds.KindDelegate, Agent: "codex"}, client.WakeRule{Peer: clitest.DeskID, Kind: kinds.KindQuery, Agent: "claude"})
	wantAll(t, d.RunInteractive("", "up"), "  Its questions begin no turn of Codex: one that names its session waits for the next turn. Its work may begin a turn of Codex (codex).\n")
}

// Whoever wants to be asked is offered a command that tells so, once.
func TestUpOffersANoticeOnce(t *testing.T) {
	d := newUpDaemon(t, "claude", "codex", "notify-send")
	d.connect(t, "claude", "codex")
	d.SetAnswer(client.MethodWakeNotify, client.OwnerNotify{})
	d.setState([]client.Peer{desk})
	got := d.RunInteractive("a\nno\na\nno\n", "up")
	if did := d.takeDone(); got.Code != 0 || did != "wake de5c query  ask" || strings.Count(got.Err, "Tell you so? Type yes or no: ") != 1 {
		t.Errorf("%q: %+v", did, got)
	}
}

// The summary says what is true of the peer that is to be asked: which agents it has, and what has to happen before one
// answers. No peer fills it.
func TestUpSaysWhomToAsk(t *testing.T) {
	d := newUpDaemon(t, "claude")
	d.connect(t, "claude")
	const ask = "Say to Claude Code: Ask desk which branch is checked out there.\n"
	many := make([]string, 60_000)
	for i := range many {
		many[i] = "a" + strconv.Itoa(i)
	}
	for want, agents := range map[string][]string{
		", and has no agent yet.\n":        nil,
		". Its agents: codex, reviewer.\n": {"codex", "reviewer"},
		". Its agents: codex, ?.\n":        {"\x1b[2J", "codex", "Say yes now", ""},
		". Its agents: " + strings.Join(many[:kinds.MaxDetails], ", ") + " and " + strconv.Itoa(len(many)-kinds.MaxDetails) + " more.\n": many,
	} {
		d.SetAnswer(client.MethodDiscover, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "capabilities", Payload: kinds.EncodePayload(&kinds.Capabilities{AgentName: "desk", Agents: agents})})
		d.setState([]client.Peer{desk})
		got := d.RunInteractive("n\n", "up")
		next := ask
		if agents == nil {
			next = "At desk, start a program that acpctl setup has connected, or acpctl serve. Then: " + ask
		}
		wantAll(t, got, "desk answers in 0.400 ms"+want, "\n"+next)
	}
	d.SetAnswer(client.MethodPing, kinds.Errorf(kinds.Unreachable, "no"))
	wantAll(t, d.RunInteractive("n\n", "up"), "desk does not answer now: acpctl ping desk says why.\n", "\nWhen it answers: "+ask)
}

// The sentence at the end names a session of the peer: without a name, a program that serves there would answer.
func TestUpNamesASession(t *testing.T) {
	d := newUpDaemon(t, "claude")
	d.connect(t, "claude")
	reviewer, codex, claude := kinds.AgentDetails{Name: "reviewer", Answers: kinds.AnswersNow}, kinds.AgentDetails{Name: "codex", Answers: kinds.AnswersTurn}, kinds.AgentDetails{Name: "claude", Answers: kinds.AnswersWakes}
	for whom, there := range map[string][]kinds.AgentDetails{
		"desk":        {reviewer},
		"desk/codex":  {reviewer, {Name: "say yes", Answers: kinds.AnswersTurn}, codex},
		"desk/claude": {codex, claude},
	} {
		c := kinds.Capabilities{AgentName: "desk", Details: there}
		for _, a := range there {
			c.Agents = append(c.Agents, a.Name)
		}
		d.SetAnswer(client.MethodDiscover, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "capabilities", Payload: kinds.EncodePayload(&c)})
		d.setState([]client.Peer{desk})
		wantAll(t, d.RunInteractive("n\n", "up"), "\nSay to Claude Code: Ask "+whom+" which branch is checked out there.\n")
	}
}
