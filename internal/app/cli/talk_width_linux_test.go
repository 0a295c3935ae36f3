package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

// What is told on standard error breaks between words where that is a terminal, whichever verb tells it. For a
// script it is one line.
func TestTalkHasTheWidthOfItsTerminal(t *testing.T) {
	f := newDaemon(t)
	const long = "a reason that has very many words, so that no terminal of so few columns has room for all of it on one line"
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: clitest.DeskID, Name: "desk", State: client.PeerTrusted}}})
	f.SetAnswer(client.MethodUntrust, &client.Untrusted{ID: clitest.DeskID, Name: "desk", Unwritten: []string{client.PartTrust}, Reason: long})
	f.SetAnswer(client.MethodTrust, &client.NamedPeer{ID: clitest.DeskID, Name: "desk", Warning: long})
	f.SetAnswer(client.MethodInbox, &client.Inbox{Next: 9})
	f.SetAnswer(client.MethodNotify, []client.Receipt{{To: "desk", Error: kinds.Errorf(kinds.Unreachable, long)}})
	f.SetAnswer(client.MethodDelegate, &client.DelegateAnswer{ID: clitest.SomeID, Payload: kinds.EncodePayload(&kinds.Ack{Message: long})})
	f.SetAnswer(client.MethodCancel, &client.CancelAnswer{Abandoned: long})
	f.SetAnswer(client.MethodTask, &client.Task{ID: clitest.SomeID})
	f.SetAnswer(client.MethodWait, &client.Task{ID: clitest.SomeID, State: client.TaskFailed, Outcome: long})
	f.SetAnswer(client.MethodRelayList, &client.Relays{Relays: []client.Relay{{Name: "hub", State: client.RelayUnused, Error: long}}})
	f.SetHandler(client.MethodTraffic, func(*jsonrpc.Request) (any, error) { return &client.TrafficAnswer{OpenMore: 1}, nil })
	id := clitest.SomeID.String()
	for _, line := range []string{
		"untrust desk", "trust " + clitest.DeskID.String(), "inbox", "notify desk,shelf topic x", "delegate desk x", "cancel " + id + " --abandon", "wait " + id, "relay list", "waiting",
	} {
		script := f.Run(strings.Fields(line)...)
		told := tellAtWidth(t, f, 40, strings.Fields(line)...)
		if strings.Join(strings.Fields(told), " ") != strings.Join(strings.Fields(script.Err), " ") || len(script.Err) < 60 {
			t.Errorf("acpctl %s: it tells %q, and %q to a script", line, told, script.Err)
		}
		for row := range strings.Lines(told) {
			if ui.CountCells(strings.TrimSuffix(row, "\n")) > 40 && strings.Contains(strings.TrimSpace(row), " ") {
				t.Errorf("acpctl %s: over 40 columns: %q", line, row)
			}
		}
	}
}

// tellAtWidth runs a command line with a terminal of so many columns as its standard error, and returns what it
// has written there.
func tellAtWidth(t *testing.T, f *clitest.FakeDaemon, columns int, args ...string) string {
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
	f.RunWithoutHome(t.Context(), ui.Terminal{In: strings.NewReader(""), Out: io.Discard, Err: slave}, append([]string{"--home", f.Home}, args...)...)
	slave.Close()
	<-read
	return strings.ReplaceAll(seen.String(), "\r\n", "\n")
}
