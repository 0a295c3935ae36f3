package cli

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// What peers write cannot drive a terminal, and what should stand on a line does.
func TestForeignTextIsTamed(t *testing.T) {
	const evil = "a\x1b[2Jb\x07c\u202ed\u009b2J\ne"
	f := newDaemon(t)
	payload := func(v any) wire.Payload { return kinds.EncodePayload(v) }
	f.SetAnswer(client.MethodQuery, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "response",
		Payload: payload(&kinds.Response{Summary: evil, Data: jsontext.Value("{\"k\":\"\\u001b[2J\u202e\"}")})})
	f.SetAnswer(client.MethodDiscover, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "capabilities",
		Payload: payload(&kinds.Capabilities{AgentName: evil, Domains: []string{evil}, Tools: []string{evil}, Model: evil})})
	f.SetAnswer(client.MethodPing, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "pong", Payload: payload(&kinds.Pong{Status: evil})})
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: clitest.DeskID, State: client.PeerPending, Claim: evil, Addrs: []string{evil}}}})
	f.SetAnswer(client.MethodTasks, &client.Tasks{Tasks: []client.Task{{ID: clitest.SomeID, Peer: "desk", Direction: client.Taken, Task: evil, State: client.TaskFailed, Outcome: evil}}})
	f.SetAnswer(client.MethodWait, &client.Task{ID: clitest.SomeID, State: client.TaskFailed, Outcome: evil})
	f.SetAnswer(client.MethodCancel, &client.CancelAnswer{Ref: clitest.SomeID, Payload: payload(&kinds.Ack{Message: evil})})
	f.SetAnswer(client.MethodDelegate, &client.DelegateAnswer{ID: clitest.SomeID, From: clitest.DeskID, Payload: payload(&kinds.Ack{Message: evil})})
	f.SetAnswer(client.MethodInbox, &client.Inbox{Messages: []client.HeldMessage{
		{Seq: 1, Envelope: wire.Envelope{V: 1, ID: clitest.SomeID, From: clitest.DeskID, To: clitest.MyID, Kind: "notify", Payload: payload(&kinds.Notify{Topic: "t", Data: jsontext.Value("\"\u202e\"")})}},
		{Seq: 2, Envelope: wire.Envelope{V: 1, ID: clitest.SomeID, From: clitest.DeskID, To: clitest.MyID, Kind: "result", Ref: &clitest.SomeID, Payload: payload(&kinds.Result{Status: "completed", Outcome: evil})}},
		{Seq: 3, Envelope: wire.Envelope{V: 1, ID: clitest.SomeID, From: clitest.DeskID, To: clitest.MyID, Kind: "error", Ref: &clitest.SomeID, Payload: payload(kinds.Errorf(kinds.Internal, "%s", evil))}},
		{Seq: 4, Envelope: wire.Envelope{V: 1, ID: clitest.SomeID, From: clitest.DeskID, To: clitest.MyID, Kind: "later", Payload: wire.Payload("{\"x\":\"\u202e\"}")}},
	}})
	f.SetAnswer(client.MethodNotify, kinds.Errorf(kinds.Internal, "%s", evil))
	for _, args := range [][]string{
		{"query", "desk", "hi"}, {"discover", "desk"}, {"ping", "desk", "-c", "1"}, {"peers"}, {"tasks"}, {"wait", clitest.SomeID.String()},
		{"cancel", clitest.SomeID.String()}, {"delegate", "desk", "x"}, {"inbox"}, {"notify", "desk", "t", "x"}, {"trust", evil}, {"trust", clitest.DeskID.String()[:8]},
	} {
		got := f.Run(args...)
		if all := got.Out + got.Err; strings.ContainsAny(all, "\x1b\x07\u009b\u202e") || all == "" {
			t.Errorf("%v: %q", args, all)
		}
		if all := f.Run(append(args, "--json")...).Out; strings.ContainsAny(all, "\x1b\x07\u009b\u202e") || all == "" {
			t.Errorf("%v --json: %q", args, all)
		}
		if lines := strings.Count(got.Out, "\n"); (args[0] == "peers" || args[0] == "tasks") && lines != 1 || args[0] == "inbox" && lines != 4 {
			t.Errorf("%v: %d lines: %q", args, lines, got.Out)
		}
	}
}

// On a terminal there are heads, colours where they are wanted, and times for people.
func TestTerminal(t *testing.T) {
	f := newDaemon(t)
	rtt := uint64(1234)
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{
		{ID: clitest.DeskID, Name: "desk", State: client.PeerConnected, Addrs: []string{"192.0.2.1:7117"}, RTTUS: &rtt, Source: client.SourceMDNS},
		{ID: clitest.MyID, State: client.PeerPending, Claim: "desk", NameConflict: true},
	}})
	f.WantResult(f.Run("peers"), 0, "desk\tde5c000000\tconnected\t?\t1.234 ms\t-\tmdns\t192.0.2.1:7117\n"+
		"\"desk\" (a trusted peer's name!)\tacdc000000\tpending\t-\t-\t-\t-\t\n", "")
	plainly := "NAME                             ID          STATE      AGENTS  RTT       SEEN  SOURCE  ADDRESSES\n" +
		"desk                             de5c000000  connected  ?       1.234 ms  -     mdns    192.0.2.1:7117\n" +
		"\"desk\" (a trusted peer's name!)  acdc000000  pending    -       -         -     -\n"
	f.WantResult(f.RunAtTerminal(ui.Terminal{OutTTY: true}, "", "peers"), 0, plainly, "")
	got := f.RunInteractive("", "peers")
	if !strings.Contains(got.Out, ui.Green+"connected"+ui.Plain) || !strings.Contains(got.Out, ui.Yellow+"pending"+ui.Plain) {
		t.Errorf("no colours: %q", got.Out)
	}
	if !strings.Contains(got.Err, "acdc000000 is no trusted peer: it claims the name of one\n") {
		t.Errorf("a narrow terminal does not tell: %q", got.Err)
	}
	for _, code := range []string{ui.Bold, ui.Green, ui.Yellow, ui.Plain} {
		got.Out = strings.ReplaceAll(got.Out, code, "")
	}
	if got.Out != plainly {
		t.Errorf("with colours it is another text:\n%s", got.Out)
	}
	f.SetAnswer(client.MethodTasks, &client.Tasks{})
	f.WantResult(f.RunInteractive("", "tasks"), 0, "", "none\n")
	f.WantResult(f.Run("tasks"), 0, "", "")

	f.SetAnswer(client.MethodQuery, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "response", RTTUS: 12340, FromAgent: "reviewer",
		Payload: wire.Payload(`{"summary":"yes","data":{"n":1.50},"truncated":true}`)})
	f.WantResult(f.Run("query", "desk", "hi"), 0, "yes\n{\"n\":1.50}\n", "acpctl query: the answer is not whole, the agent has cut it: ask for less at a time\n")
	f.WantResult(f.RunInteractive("", "query", "desk", "hi"), 0, "yes\n{\n\t\"n\": 1.50\n}\n", "acpctl query: the answer is not whole, the agent has cut it: ask for less at a time\ndesk/reviewer · 12.3ms\n")
	f.WantResult(f.RunInteractive("", "query", "desk", "hi", "--json"), 0,
		`{"id":"`+clitest.SomeID.String()+`","from":"`+clitest.DeskID.String()+`","from_agent":"reviewer","kind":"response","rtt_us":12340,"payload":{"summary":"yes","data":{"n":1.50},"truncated":true}}`+"\n", "")

	// An older peer names no agent, and what a peer calls one may be no name.
	for agent, who := range map[string]string{"": "desk · 2m0.5s", "user\x1b[2J": "desk/? · 2m0.5s"} {
		f.SetAnswer(client.MethodQuery, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "response", RTTUS: 120_500_000, FromAgent: agent, Payload: wire.Payload(`{"summary":"yes"}`)})
		f.WantResult(f.RunInteractive("", "query", "desk", "hi"), 0, "yes\n", who+"\n")
	}
}
