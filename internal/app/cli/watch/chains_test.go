package watch

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// opened returns an open call that began so many seconds after noon, and has the id with that number.
func opened(second byte, d client.MessageDirection, peer identity.ID, name, from, to string) client.TrafficEntry {
	id := clitest.SomeID
	id[0] = second
	return client.TrafficEntry{At: noon.Add(time.Duration(second) * time.Second), ID: id, Direction: d, Peer: peer, Name: name, FromAgent: from, Agent: to, Kind: "query", Text: "?"}
}

// Each call stands below the one that led to it, those that nothing led to in their order; or all do, in theirs.
func TestChains(t *testing.T) {
	laptop, build := clitest.DeskID, clitest.MyID
	open := []client.TrafficEntry{
		opened(1, client.In, laptop, "laptop", "planner", "reviewer"), opened(2, client.In, laptop, "laptop", "tester", "writer"),
		opened(3, client.Out, build, "build", "reviewer", "builder"), opened(4, client.In, build, "build", "builder", "signer"),
		opened(5, client.Out, build, "build", "reviewer", "tester"),
	}
	open[2].Parent, open[4].Parent = open[0].ID, open[0].ID
	for joined, want := range map[bool]string{
		true:  "laptop/planner here/reviewer\n>here/reviewer build/builder\n>here/reviewer build/tester\nlaptop/tester here/writer\nbuild/builder here/signer\n",
		false: "laptop/planner here/reviewer\nlaptop/tester here/writer\nhere/reviewer build/builder\nbuild/builder here/signer\nhere/reviewer build/tester\n",
	} {
		var b strings.Builder
		for _, c := range joinChains(open, joined) {
			b.WriteString(strings.Repeat(">", c.depth) + findWho(c.TrafficEntry) + " " + findWhom(c.TrafficEntry) + "\n")
		}
		if b.String() != want {
			t.Errorf("joined: %v\n%s\nwant\n%s", joined, b.String(), want)
		}
	}
	if got := joinChains(nil, true); len(got) != 0 {
		t.Error(got)
	}
}

// A person sees chains, each call under the one that it holds up, and what was guessed; a script has the oldest
// first.
func TestWaitingJoinsChains(t *testing.T) {
	f := newDaemon(t)
	begun := time.Now().Add(-10 * time.Minute)
	call := func(second byte, d client.MessageDirection, peer identity.ID, name, from, to string) client.TrafficEntry {
		e := opened(second, d, peer, name, from, to)
		e.At = begun.Add(time.Duration(second) * time.Minute)
		return e
	}
	answer := &client.TrafficAnswer{Next: 1, Open: []client.TrafficEntry{
		call(1, client.In, clitest.DeskID, "laptop", "planner", "reviewer"),
		call(2, client.In, clitest.DeskID, "laptop", "tester", "writer"),
		call(3, client.Out, clitest.MyID, "build", "reviewer", "builder"),
		call(4, client.Out, clitest.MyID, "build", "writer", "builder"),
	}}
	answer.Open[2].Parent = answer.Open[0].ID
	answer.Open[3].Parent, answer.Open[3].Guessed = answer.Open[1].ID, true
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{
		{ID: clitest.DeskID, Name: "laptop", State: client.PeerConnected}, {ID: clitest.MyID, Name: "build", State: client.PeerConnected},
	}})
	f.SetHandler(client.MethodTraffic, func(*jsonrpc.Request) (any, error) { return answer, nil })
	f.WantResult(f.RunAtTerminal(ui.Terminal{OutTTY: true}, "", "waiting"), 0, ""+
		"SINCE   WHO              WAITS FOR      KIND   ID        TEXT\n"+
		"9m ago  laptop/planner   here/reviewer  query  012b8c1e  ?\n"+
		"7m ago  └ here/reviewer  build/builder  query  032b8c1e  ?\n"+
		"8m ago  laptop/tester    here/writer    query  022b8c1e  ?\n"+
		"6m ago  ┊ here/writer    build/builder  query  042b8c1e  ?\n", "")
	if got := f.Run("waiting"); !strings.HasPrefix(strings.Split(got.Out, "\n")[2], answer.Open[2].At.UTC().Format(time.RFC3339)+"\there/reviewer\tbuild/builder\tquery\t032b8c1e-6f0a-4d3c-9e57-010203040506\t") {
		t.Errorf("%+v", got)
	}
}
