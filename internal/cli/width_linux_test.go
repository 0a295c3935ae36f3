package cli

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/internal/cli/clitest"
	"github.com/acpd/acpd/internal/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// runAtWidth runs a command line at a terminal of so many columns until it ends, or until it has written so many
// lines, and returns them. 0: it ends by itself.
func runAtWidth(t *testing.T, f *clitest.FakeDaemon, columns, most int, args ...string) (lines []string) {
	t.Helper()
	master, slave, err := live.OpenTerminal(50, uint16(columns))
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var seen bytes.Buffer
	read := make(chan struct{})
	go func() { // ends with the last who has the terminal
		defer close(read)
		for b := make([]byte, 4096); ; {
			n, err := master.Read(b)
			seen.Write(b[:n])
			if err != nil {
				return
			}
			if most > 0 && bytes.Count(seen.Bytes(), []byte("\n")) >= most {
				stop()
			}
		}
	}()
	code := f.RunWithoutHome(ctx, ui.Terminal{In: strings.NewReader(""), Out: slave, Err: io.Discard, OutTTY: true}, append([]string{"--home", f.Home}, args...)...)
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

// No line of a list is longer than its terminal is wide, however narrow that is and whatever peers write, and no two
// peers look the same there.
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
	name := regexp.MustCompile(`b[a-z0-9-]*(…[a-z0-9~-]*|[12]\b)`)
	for _, verb := range []string{"inbox", "inbox --taken", "peers", "tasks", "approvals", "waiting"} {
		for _, columns := range []int{1, 20, 33, 40, 50, 58, 64, 80, 100, 160} {
			lines := runAtWidth(t, f, columns, 0, strings.Fields(verb)...)
			if len(lines) != 3 {
				t.Errorf("%s at %d columns: %d lines", verb, columns, len(lines))
			}
			for _, line := range lines {
				if n := ui.CountCells(line); n > columns {
					t.Errorf("%s at %d columns: %d cells: %q", verb, columns, n, line)
				}
			}
			if columns < 40 || len(lines) != 3 {
				continue
			}
			if first, second := name.FindString(lines[1]), name.FindString(lines[2]); first == second || first == "" || second == "" {
				t.Errorf("%s at %d columns: two peers are %q and %q\n%s", verb, columns, first, second, strings.Join(lines, "\n"))
			}
		}
	}
}

// A tail keeps outcome and duration at any width in use, and tells two peers apart by their names alone.
func TestTailHasTheWidthOfItsTerminal(t *testing.T) {
	entry := func(name, agent string) client.TrafficEntry {
		return client.TrafficEntry{
			At: time.Now(), ID: clitest.SomeID, Direction: client.Out, Peer: clitest.DeskID, Name: name, FromAgent: "planner", Agent: agent, Kind: "query",
			Text: "a somewhat longer question, which has no room", Outcome: "unreachable", TookUS: 1_234_000,
		}
	}
	answer := &client.TrafficAnswer{Next: 9, Entries: []client.TrafficEntry{entry(frankfurt1, ""), entry(frankfurt2, ""), entry(frankfurt2, "frankfurt-1")}}
	for _, columns := range []int{38, 40, 50, 56, 60, 61, 62, 70, 80, 109, 110, 200} {
		f, _ := tailed(t, answer)
		lines := runAtWidth(t, f, columns, 3, "tail")
		var names []string
		for _, line := range lines {
			if n := ui.CountCells(line); n != columns || !strings.HasSuffix(line, "unreachable    1.2s") {
				t.Errorf("%d columns: %d cells: %q", columns, n, line)
			}
			there := strings.Fields(line[strings.Index(line, "→"):])[1]
			name, _, _ := strings.Cut(there, "/")
			names = append(names, name)
			if columns >= 62 && !strings.Contains(line, "a s") {
				t.Errorf("%d columns: no text: %q", columns, line)
			}
		}
		if len(names) != 3 || names[0] == names[1] || names[0] == names[2] {
			t.Errorf("%d columns: two peers look the same: %q", columns, lines)
		}
		if columns >= 50 && slices.ContainsFunc(lines, func(line string) bool { return !regexp.MustCompile(`^\d\d:\d\d:\d\d`).MatchString(line) }) {
			t.Errorf("%d columns: no time: %q", columns, lines)
		}
	}
}
