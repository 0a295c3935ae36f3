package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
)

// On a narrow terminal a call is still below the one that waits for it, and names are whole.
func TestWaitingKeepsItsTree(t *testing.T) {
	f := newDaemon(t)
	call := func(second byte, d client.MessageDirection, name, from, to string) client.TrafficEntry {
		e := opened(second, d, clitest.DeskID, name, from, to)
		e.At = time.Now().Add(-10*time.Minute + time.Duration(second)*time.Minute)
		return e
	}
	answer := &client.TrafficAnswer{Next: 1, Open: []client.TrafficEntry{
		call(1, client.In, "laptop", "planner", "reviewer"), call(3, client.Out, "build", "reviewer", "builder"),
	}}
	answer.Open[1].Parent = answer.Open[0].ID
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: clitest.DeskID, Name: "laptop", State: client.PeerConnected}}})
	f.SetHandler(client.MethodTraffic, func(*jsonrpc.Request) (any, error) { return answer, nil })
	for columns, want := range map[int][]string{
		70: {"9m ago  laptop/planner   here/reviewer  query  012b8c1e  ?", "7m ago  └ here/reviewer  build/builder  query  032b8c1e  ?"},
		40: {"9m ago  laptop/planner   here/reviewer", "7m ago  └ here/reviewer  build/builder"},
	} {
		lines := runAtWidth(t, f, columns, 0, "waiting")
		if got := strings.Join(lines[1:], "\n"); got != strings.Join(want, "\n") {
			t.Errorf("%d columns:\n%s\nwant\n%s", columns, got, strings.Join(want, "\n"))
		}
	}
}
