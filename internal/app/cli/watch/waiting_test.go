package watch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// What is open is listed with who waits on the left, whoever called whom.
func TestWaiting(t *testing.T) {
	f := newDaemon(t)
	var asked client.TrafficParams
	answer := &client.TrafficAnswer{Next: 1, Open: []client.TrafficEntry{
		{At: noon, ID: clitest.SomeID, Direction: client.Out, Peer: clitest.DeskID, Name: "desk", FromAgent: "planner", Agent: "reviewer", Kind: "query", Text: "Which\x1b[2J branch?"},
		{At: noon.Add(time.Second), ID: clitest.SomeID, Direction: client.In, Peer: clitest.DeskID, Name: "desk", FromAgent: "tester", Agent: "reviewer", Kind: "delegate", Text: "Build."},
		{At: noon.Add(2 * time.Second), ID: clitest.SomeID, Direction: client.Out, Peer: clitest.DeskID, Kind: "query"},
	}}
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: clitest.DeskID, Name: "desk", State: client.PeerConnected}}})
	f.SetAnswer(client.MethodTasks, &client.Tasks{})
	f.SetHandler(client.MethodTraffic, func(r *jsonrpc.Request) (any, error) {
		asked = client.TrafficParams{}
		return answer, r.ReadParams(&asked)
	})
	const id = "3f2b8c1e-6f0a-4d3c-9e57-010203040506"
	const first = "2026-11-27T12:00:00Z\there/planner\tdesk/reviewer\tquery\t" + id + "\tWhich branch?\n"
	f.WantResult(f.Run("waiting"), 0, first+
		"2026-11-27T12:00:01Z\tdesk/tester\there/reviewer\tdelegate\t"+id+"\tBuild.\n"+
		"2026-11-27T12:00:02Z\ta program here\tde5c000000\tquery\t"+id+"\t-\n", "")
	if !asked.Open || asked.Limit != 1 || len(asked.Peers)+len(asked.Agents) > 0 {
		t.Errorf("%+v", asked)
	}
	f.WantResult(f.Run("waiting", "desk/reviewer"), 0, first, "") // reviewer here is another one
	if len(asked.Peers) != 1 || asked.Peers[0] != "desk" || len(asked.Agents) != 1 || asked.Agents[0] != "reviewer" {
		t.Errorf("%+v", asked)
	}
	if got := f.Run("waiting", "--json"); strings.Count(got.Out, `"direction":`) != 3 || !strings.HasPrefix(got.Out, `{"open":[{"at":"2026-11-27T12:00:00Z"`) {
		t.Errorf("%+v", got)
	}
	answer.Open[0].At = time.Now().Add(-61 * time.Second)
	if got := f.RunAtTerminal(ui.Terminal{OutTTY: true}, "", "waiting"); !strings.HasPrefix(got.Out, "SINCE ") || !strings.Contains(got.Out, "\n1m ago  ") {
		t.Errorf("%+v", got)
	}

	answer.OpenMore = 7
	if got := f.Run("waiting"); got.Code != 0 || got.Err != "acpctl waiting: 7 more calls are open than have room in one answer: name a peer, as acpctl waiting PEER does\n" {
		t.Errorf("%+v", got)
	}
	if got := f.Run("waiting", "--json"); !strings.HasSuffix(got.Out, `],"open_more":7}`+"\n") {
		t.Errorf("%+v", got)
	}
	answer = &client.TrafficAnswer{Next: 1}
	f.WantResult(f.Run("waiting"), 0, "", "")
	f.WantResult(f.Run("waiting", "--json"), 0, `{"open":[]}`+"\n", "")
	f.WantResult(f.RunInteractive("", "waiting"), 0, "", "nobody waits: no query and no delegation is open\n")
	f.WantResult(f.RunInteractive("", "waiting", "desk/x"), 0, "", "nobody waits for desk/x, and nobody there waits for anybody here: acpctl waiting lists all\n")
	for _, args := range [][]string{{"waiting", ""}, {"waiting", "/reviewer"}, {"waiting", "desk/"}, {"waiting", "desk", "laptop"}} {
		if got := f.Run(args...); got.Code != frame.ExitUsage {
			t.Errorf("%q: %+v", args, got)
		}
	}
	f.SetAnswer(client.MethodTraffic, kinds.Errorf(kinds.UnknownPeer, `peers: no peer "dsek" is known: did you mean desk?`))
	f.WantResult(f.Run("waiting", "dsek"), 5, "", `acpctl waiting: PEER: no peer "dsek" is known: did you mean desk?`+"\n")
}

// Behind the text stands what keeps a call: a peer that is away, and until when it can be kept. A peer that is
// connected, and a call without a deadline, have nothing there.
func TestWaitingSaysWhatKeepsACall(t *testing.T) {
	f := newDaemon(t)
	other := clitest.SomeID
	other[0]++
	call := func(d client.MessageDirection, id wire.MessageID, peer identity.ID, name, kind string) client.TrafficEntry {
		return client.TrafficEntry{At: noon, ID: id, Direction: d, Peer: peer, Name: name, Agent: "reviewer", Kind: kind, Text: "Build."}
	}
	f.SetAnswer(client.MethodTraffic, &client.TrafficAnswer{Next: 1, Open: []client.TrafficEntry{
		call(client.Out, clitest.SomeID, clitest.DeskID, "desk", "delegate"), call(client.In, clitest.SomeID, clitest.DeskID, "desk", "delegate"),
		call(client.Out, clitest.SomeID, clitest.MyID, "build", "query"), call(client.Out, other, clitest.MyID, "build", "delegate"),
		call(client.In, clitest.SomeID, identity.ID{7}, "", "query"),
	}})
	until := client.Time{Time: time.Now().Add(100 * time.Hour).UTC().Truncate(time.Second)}
	f.SetAnswer(client.MethodTasks, &client.Tasks{Tasks: []client.Task{
		{ID: clitest.SomeID, Peer: "desk", Direction: client.Given, Deadline: until}, {ID: clitest.SomeID, Peer: "desk", Direction: client.Taken},
		{ID: clitest.SomeID, Peer: "build", Direction: client.Given, Deadline: until}, // another's id
		{ID: other, Peer: "build", Direction: client.Given, Deadline: client.Time{Time: noon.Add(-20 * 365 * 24 * time.Hour)}},
	}})
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{
		{ID: clitest.DeskID, Name: "desk", State: client.PeerConnected, LastSeen: client.Time{Time: noon}}, {ID: clitest.MyID, Name: "build", State: client.PeerTrusted, LastSeen: client.Time{Time: noon}},
	}})
	got := f.Run("waiting")
	var said []string
	for line := range strings.Lines(got.Out) {
		said = append(said, strings.TrimSpace(line[strings.LastIndexByte(line, '\t'):]))
	}
	want := []string{
		"Build. (deadline " + until.Format(time.RFC3339) + ")", "Build.",
		"Build. (not connected, seen last at 2026-11-27T12:00:00Z)", "Build. (not connected, seen last at 2026-11-27T12:00:00Z; past its deadline)",
		"Build. (not connected)",
	}
	if !slices.Equal(said, want) || got.Code != 0 || got.Err != "" {
		t.Errorf("%d, %s\n%s\nwant\n%s", got.Code, got.Err, strings.Join(said, "\n"), strings.Join(want, "\n"))
	}
	soon := client.Time{Time: time.Now().Add(10 * time.Minute)}
	f.SetAnswer(client.MethodTasks, &client.Tasks{Tasks: []client.Task{{ID: clitest.SomeID, Peer: "desk", Direction: client.Given, Deadline: soon}}})
	if got := f.RunAtTerminal(ui.Terminal{OutTTY: true}, "", "waiting", "desk"); !strings.Contains(got.Out, "Build. (deadline "+soon.Local().Format("15:04:05")+")") {
		t.Errorf("%+v", got)
	}
	f.SetAnswer(client.MethodPeers, kinds.Errorf(kinds.DaemonUnavailable, "the daemon went away"))
	f.WantResult(f.Run("waiting"), frame.ExitNoDaemon, "", "acpctl waiting: the daemon went away\n")
}
