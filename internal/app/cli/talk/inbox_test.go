package talk

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// The inbox is read page by page.
func TestInboxPages(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodPeers, &client.Peers{})
	f.SetHandler(client.MethodInbox, func(r *jsonrpc.Request) (any, error) {
		var p client.InboxParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		page := &client.Inbox{Messages: []client.HeldMessage{{Seq: p.After + 1, Envelope: wire.Envelope{V: 1, ID: clitest.SomeID, From: clitest.DeskID, To: clitest.MyID, Kind: "notify", Payload: wire.Payload(`{"topic":"t"}`)}}}}
		if p.After == 0 {
			page.Next = 1
		}
		return page, nil
	})
	var shown []uint64
	f.SetHandler(client.MethodShown, func(r *jsonrpc.Request) (any, error) {
		var p client.ShownParams
		err := r.ReadParams(&p)
		shown = append(shown, p.Seqs...)
		return struct{}{}, err
	})
	row := "\t" + clitest.DeskID.Label() + "\t-\tnotify\t-\tt \n"
	f.WantResult(f.Run("inbox"), 0, "1"+row, "acpctl inbox: there is more: acpctl inbox --after 1 shows it, acpctl inbox --ack 1 removes these\n")
	f.WantResult(f.Run("inbox", "--after", "1"), 0, "2"+row, "")
	if !slices.Equal(shown, []uint64{1, 2}) {
		t.Errorf("shown is said of %v", shown)
	}
	f.SetHandler(client.MethodInbox, func(*jsonrpc.Request) (any, error) {
		sent := wire.Envelope{V: 1, ID: clitest.SomeID, From: clitest.DeskID, To: clitest.MyID, Kind: "notify", Payload: wire.Payload(`{"topic":"t"}`), TS: uint64(time.Now().Add(-90 * time.Second).UnixMilli())}
		return &client.Inbox{Messages: []client.HeldMessage{{Seq: 2, Envelope: sent}}}, nil
	})
	if got := f.RunAtTerminal(ui.Terminal{OutTTY: true}, "", "inbox"); !strings.Contains(got.Out, "1m ago") {
		t.Errorf("a person: %+v", got)
	}
	f.SetAnswer(client.MethodShown, kinds.Errorf(kinds.DaemonUnavailable, "the daemon hung up"))
	if got := f.Run("inbox", "--after", "1"); got.Code != 6 || got.Err != "acpctl inbox: the daemon hung up; --ack removes none of these before inbox has shown them again\n" {
		t.Errorf("%+v", got)
	}
}

// That nothing was removed is an error: the daemon forgets what was shown when it is started again.
func TestInboxRemovesNothing(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodAck, &client.Acked{})
	f.WantResult(f.Run("inbox", "--ack", "7"), 1, "", "acpctl inbox: --ack: no message up to 7 in the inbox was shown since the daemon started: see acpctl inbox first\n")
}

// A file that came says how to get it, but only if the daemon itself says that one came.
func TestInboxShowsFiles(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodPeers, &client.Peers{})
	f.SetAnswer(client.MethodShown, struct{}{})
	payload := kinds.EncodePayload(map[string]any{"topic": client.FileTopic, "data": &client.FileReport{ID: clitest.SomeID, Name: "build.log", Size: 3 << 20, Text: "the\nlog"}})
	held := client.HeldMessage{Seq: 1, Envelope: wire.Envelope{V: 1, ID: clitest.SomeID, From: clitest.DeskID, To: clitest.MyID, Kind: "notify", Payload: payload}}
	for origin, want := range map[string]string{
		client.OriginDaemon: "the file build.log (3 MiB, acpctl files save 3f2b8c1e): the log\n",
		"":                  `acp.file {"id":"` + clitest.SomeID.String() + `",`,
	} {
		held.Origin = origin
		f.SetAnswer(client.MethodInbox, &client.Inbox{Messages: []client.HeldMessage{held}})
		if got := f.Run("inbox"); got.Code != 0 || !strings.Contains(got.Out, "\tnotify\t-\t"+want) {
			t.Errorf("origin %q: %+v", origin, got)
		}
	}
}
