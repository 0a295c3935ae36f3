package cli

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// runAtWidth runs a command line at a terminal of so many columns until it ends, and returns the lines
// that it has written.
func runAtWidth(t *testing.T, f *clitest.FakeDaemon, columns int, args ...string) (lines []string) {
	t.Helper()
	master, slave, err := live.OpenTerminal(50, uint16(columns))
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	var seen bytes.Buffer
	read := make(chan struct{})
	go func() { // ends with the last who has the terminal
		defer close(read)
		io.Copy(&seen, master)
	}()
	code := f.RunWithoutHome(t.Context(), ui.Terminal{In: strings.NewReader(""), Out: slave, Err: io.Discard, OutTTY: true}, append([]string{"--home", f.Home}, args...)...)
	slave.Close()
	<-read
	if code != 0 {
		t.Errorf("%q at %d columns: exit code %d", args, columns, code)
	}
	return strings.Split(strings.TrimSuffix(strings.ReplaceAll(seen.String(), "\r\n", "\n"), "\n"), "\n")
}

// Two peers that look alike, but for what is told from them at both ends.
const (
	frankfurt1 = "build-machine-frankfurt-1"
	frankfurt2 = "build-machine-frankfurt-2"
)

// No line of a list is longer than its terminal is wide, however narrow that is and whatever peers write, and names of
// peers are whole.
func TestListsHaveTheWidthOfTheirTerminal(t *testing.T) {
	f := newDaemon(t)
	text := strings.Repeat("x", 30) + strings.Repeat(" ", 90) + "8m ago  here/planner  desk  query  " + strings.Repeat("語", 60)
	envelope := wire.Envelope{V: 1, ID: clitest.SomeID, From: clitest.DeskID, To: clitest.MyID, Kind: "notify", Payload: kinds.EncodePayload(&kinds.Notify{Topic: text, Data: []byte("1")})}
	other := envelope
	other.From = clitest.MyID
	held := []client.HeldMessage{{Seq: 1, Envelope: envelope, Agent: "reviewer"}, {Seq: 2, Envelope: other, Agent: "reviewer"}}
	f.SetAnswer(client.MethodInbox, &client.Inbox{Messages: held})
	f.SetAnswer(client.MethodShown, struct{}{})
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{
		{ID: clitest.DeskID, Name: frankfurt1, State: client.PeerConnected, Addrs: []string{text}}, {ID: clitest.MyID, Name: frankfurt2, State: client.PeerConnected, Addrs: []string{text}},
	}})
	f.SetAnswer(client.MethodTasks, &client.Tasks{Tasks: []client.Task{
		{ID: clitest.SomeID, Peer: frankfurt1, Direction: client.Given, Task: text}, {ID: clitest.SomeID, Peer: frankfurt2, Direction: client.Given, Task: text},
	}})
	f.SetAnswer(client.MethodApprovals, &client.Approvals{Approvals: []client.Approval{
		{ID: "3", Name: frankfurt1, Kind: "query", Agent: "claude", Message: clitest.SomeID, Text: text}, {ID: "4", Name: frankfurt2, Kind: "query", Agent: "claude", Message: clitest.SomeID, Text: text},
	}})
	open := []client.TrafficEntry{
		{At: time.Now(), ID: clitest.SomeID, Direction: client.In, Peer: clitest.DeskID, Name: frankfurt1, FromAgent: text, Agent: "planner", Kind: "delegate", Text: text},
		{At: time.Now(), ID: clitest.SomeID, Direction: client.In, Peer: clitest.MyID, Name: frankfurt2, FromAgent: "x-frankfurt-1", Agent: "planner", Kind: "delegate", Text: text},
	}
	f.SetHandler(client.MethodTraffic, func(*jsonrpc.Request) (any, error) {
		return &client.TrafficAnswer{Next: 1, Open: slices.Clone(open)}, nil
	})
	for _, verb := range []string{"inbox", "inbox --taken", "peers", "tasks", "approvals", "waiting"} {
		for _, columns := range []int{1, 20, 33, 40, 50, 58, 64, 80, 100, 160} {
			lines := runAtWidth(t, f, columns, strings.Fields(verb)...)
			if len(lines) != 3 {
				t.Errorf("%s at %d columns: %d lines", verb, columns, len(lines))
			}
			for _, line := range lines {
				if n := ui.CountCells(line); n > columns {
					t.Errorf("%s at %d columns: %d cells: %q", verb, columns, n, line)
				}
			}
			if columns >= 80 && (!strings.Contains(lines[1], frankfurt1) || !strings.Contains(lines[2], frankfurt2)) {
				t.Errorf("%s at %d columns: a name is not whole:\n%s", verb, columns, strings.Join(lines, "\n"))
			}
		}
	}
}
