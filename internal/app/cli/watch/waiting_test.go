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

// Behind the text stands which of the two that a call is between is away.
func TestWaitingSaysWhoIsAway(t *testing.T) {
	f := newDaemon(t)
	call := func(peer identity.ID, name string) client.TrafficEntry {
		return client.TrafficEntry{At: noon, ID: clitest.SomeID, Direction: client.In, Peer: peer, Name: name, Agent: "reviewer", Kind: "delegate", Text: "Build."}
	}
	left := call(clitest.DeskID, "desk")
	left.AgentAwaySince = client.Time{Time: noon}
	f.SetAnswer(client.MethodTraffic, &client.TrafficAnswer{Next: 1, Open: []client.TrafficEntry{
		call(clitest.DeskID, "desk"), left, call(clitest.MyID, "build"), call(identity.ID{7}, ""),
	}})
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{
		{ID: clitest.DeskID, Name: "desk", State: client.PeerConnected, LastSeen: client.Time{Time: noon}}, {ID: clitest.MyID, Name: "build", State: client.PeerTrusted, LastSeen: client.Time{Time: noon}},
	}})
	got := f.Run("waiting")
	var said []string
	for line := range strings.Lines(got.Out) {
		_, behind, _ := strings.Cut(line, "\tBuild.")
		said = append(said, strings.TrimSpace(behind))
	}
	want := []string{"", "reviewer is not attached, seen last 2026-11-27T12:00:00Z: acpctl doctor", "not connected, seen last 2026-11-27T12:00:00Z", "not connected"}
	if !slices.Equal(said, want) || got.Code != 0 || got.Err != "" {
		t.Errorf("%q, want %q: %+v", said, want, got)
	}
	f.SetAnswer(client.MethodPeers, kinds.Errorf(kinds.DaemonUnavailable, "the daemon went away"))
	f.WantResult(f.Run("waiting"), frame.ExitNoDaemon, "", "acpctl waiting: the daemon went away\n")
}
