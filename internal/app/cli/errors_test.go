package cli

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

// Every code of the table ends a command with its exit code, in words and as JSON.
func TestEveryCodeHasItsExit(t *testing.T) {
	f := newDaemon(t)
	for _, row := range kinds.ListCodes() {
		// Exit 7 is for what the peer raised.
		local := row.Exit
		if local == frame.ExitFailed {
			local = frame.ExitLocal
		}
		f.SetAnswer(client.MethodQuery, kinds.Errorf(row.Code, "what went wrong"))
		f.WantResult(f.Run("query", "desk", "hi"), local, "", "acpctl query: what went wrong\n")
		theirs := kinds.Errorf(row.Code, "what went wrong")
		theirs.From = clitest.DeskID.String()
		f.SetAnswer(client.MethodQuery, theirs)
		f.WantResult(f.Run("query", "desk", "hi"), row.Exit, "", "acpctl query: "+clitest.DeskID.String()+" says: what went wrong\n")
		f.WantResult(f.Run("query", "desk", "hi", "--json"), row.Exit,
			fmt.Sprintf(`{"error":{"code":%q,"message":"what went wrong","retryable":%v,"from":%q}}`+"\n", row.Code, row.Retryable, clitest.DeskID), "")
	}
	f.SetAnswer(client.MethodQuery, &kinds.Error{Code: "of_the_future", Message: "new", From: clitest.DeskID.String()})
	f.WantResult(f.Run("query", "desk", "hi"), frame.ExitFailed, "", "acpctl query: "+clitest.DeskID.String()+" says: new\n")
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: clitest.MyID, Name: "laptop"}, {ID: clitest.DeskID, Name: "desk"}}})
	f.WantResult(f.Run("query", "de5c", "hi"), frame.ExitFailed, "", "acpctl query: desk says: new\n")
	f.SetAnswer(client.MethodQuery, jsonrpc.NewMethodNotFound("query"))
	if got := f.Run("query", "desk", "hi", "--json"); got.Code != frame.ExitLocal || !strings.HasPrefix(got.Out, `{"error":{"code":"internal"`) {
		t.Errorf("a daemon that does not know the method: %+v", got)
	}
}

// An interrupt before the answer is 130.
func TestInterrupted(t *testing.T) {
	f := newDaemon(t)
	asked := make(chan struct{})
	gone := make(chan struct{})
	ctx, interrupt := context.WithCancel(t.Context())
	f.SetHandler(client.MethodQuery, func(r *jsonrpc.Request) (any, error) { close(asked); <-gone; return nil, nil })
	go func() { <-asked; interrupt() }()
	var out strings.Builder
	if code := f.RunWithoutHome(ctx, ui.Terminal{Out: &out, Err: &out}, "--home", f.Home, "query", "desk", "hi"); code != frame.ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
	close(gone)
	if got := out.String(); got != "acpctl query: interrupted\n" {
		t.Errorf("%q", got)
	}
}

// What a daemon tells agents to do is told in words of the command line.
func TestRemediesCanBeTyped(t *testing.T) {
	f := newDaemon(t)
	id := clitest.SomeID.String()
	f.SetAnswer(client.MethodCancel, kinds.Errorf(kinds.NotFound, "ref: say in `to` whom it went to"))
	f.WantResult(f.Run("cancel", id), frame.ExitLocal, "", "acpctl cancel: ID: "+id+" names no delegation that was given here: see acpctl tasks; only who delegated can cancel: acpctl reply ID --failed TEXT ends what was taken here\n")
	f.SetAnswer(client.MethodPing, kinds.Errorf(kinds.Invalid, "to: %q is this daemon itself: name a peer, or peer/agent; peers lists them", "desk"))
	f.WantResult(f.Run("ping", "desk", "-c", "1"), frame.ExitUsage, "", `acpctl ping: PEER: "desk" is this daemon itself: name a peer, or peer/agent; acpctl peers lists them`+"\nSee: acpctl ping --help\n")
	f.SetAnswer(client.MethodPing, kinds.Errorf(kinds.DaemonUnavailable, "gone: repeat it with the same id"))
	f.WantResult(f.Run("ping", "desk", "-c", "1"), 6, "", "acpctl ping: gone: try again\n")
	f.SetAnswer(client.MethodQuery, kinds.Errorf(kinds.Timeout, "allow more time, or repeat with the same id"))
	f.WantResult(f.Run("query", "desk", "x"), 3, "", "acpctl query: allow more time (--deadline), or try again\n")
	f.SetAnswer(client.MethodPing, kinds.Errorf(kinds.UnknownPeer, "to: nobody"))
	f.WantResult(f.Run("ping", "desk", "-c", "1"), 5, "", "acpctl ping: PEER: nobody\n")
	f.SetAnswer(client.MethodWait, kinds.Errorf(kinds.NotFound, "id: unknown"))
	f.WantResult(f.Run("wait", id), frame.ExitLocal, "", "acpctl wait: ID: unknown\n")
	f.SetAnswer(client.MethodQuery, kinds.Errorf(kinds.Invalid, "max_tokens: too many"))
	f.WantResult(f.Run("query", "desk", "x"), frame.ExitUsage, "", "acpctl query: --max-tokens: too many\nSee: acpctl query --help\n")
	f.SetAnswer(client.MethodQuery, kinds.Errorf(kinds.Invalid, "to: nobody's"))
	f.WantResult(f.Run("query", "desk/", "x"), frame.ExitUsage, "", "acpctl query: PEER: nobody's\nSee: acpctl query --help\n")
	f.SetAnswer(client.MethodQuery, kinds.Errorf(kinds.Invalid, "no such thing as typed"))
	f.WantResult(f.Run("query", "desk", "x"), frame.ExitLocal, "", "acpctl query: no such thing as typed\n")
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: clitest.DeskID, Name: "desk", State: client.PeerBlocked}}})
	for _, ref := range []string{"desk", clitest.DeskID.String()[:8]} {
		if got := f.Run("trust", ref); got.Code != kinds.UnknownPeer.Info().Exit || !strings.Contains(got.Err, "its full id lifts that, acpctl trust "+clitest.DeskID.String()) {
			t.Errorf("%+v", got)
		}
	}
}

// Where a message is lost, the text says whether it may have arrived, and under which id
// it can be repeated; --json has both in the details.
func TestLossSaysWhetherItWasDelivered(t *testing.T) {
	f := newDaemon(t)
	for verb, args := range map[string][]string{"query": {"x"}, "delegate": {"x"}, "notify": {"t", "x"}} {
		for _, code := range []kinds.Code{kinds.Unreachable, kinds.Timeout} {
			for _, delivered := range []kinds.Delivered{kinds.DeliveredNo, kinds.DeliveredUnknown} {
				var sent client.Head
				f.SetHandler(verb, func(r *jsonrpc.Request) (any, error) {
					if err := json.Unmarshal(r.Params, &sent); err != nil {
						return nil, err
					}
					return nil, kinds.Errorf(code, "gone").WithDelivered(delivered)
				})
				line := append([]string{verb, "desk"}, args...)
				got, hint := f.Run(line...), ""
				if code == kinds.Unreachable && delivered == kinds.DeliveredNo {
					hint = "; with --keep it is sent when they are there"
				}
				f.WantResult(got, code.Info().Exit, "", "acpctl "+verb+": gone"+hint+"; delivered: "+string(delivered)+"; repeat it with --id "+sent.ID.String()+"\n")
				got = f.Run(append(line, "--json")...)
				if want := `"details":{"delivered":"` + string(delivered) + `","id":"` + sent.ID.String() + `"}`; !strings.Contains(got.Out, want) {
					t.Errorf("%s\nwant %s", got.Out, want)
				}
			}
		}
		// The daemon's remedy is not told twice, and where there is no daemon it comes last.
		line := append([]string{verb, "desk", "--id", clitest.SomeID.String()}, args...)
		f.SetAnswer(verb, kinds.Errorf(kinds.Unreachable, "gone; repeat with the same id when it is back").WithDelivered(kinds.DeliveredUnknown))
		f.WantResult(f.Run(line...), 5, "", "acpctl "+verb+": gone; repeat with --id "+clitest.SomeID.String()+" when it is back; delivered: unknown\n")
		f.SetAnswer(verb, kinds.Errorf(kinds.DaemonUnavailable, "no daemon; start one with: acpctl up").WithDelivered(kinds.DeliveredNo))
		f.WantResult(f.Run(line...), 6, "", "acpctl "+verb+": no daemon; start one with: acpctl up\n")
	}
	gone := kinds.Errorf(kinds.Unreachable, "desk: gone").WithDelivered(kinds.DeliveredNo)
	f.SetAnswer(client.MethodPing, gone)
	f.WantResult(f.Run("ping", "desk", "-c", "1"), 5, "desk: seq=1 gone; delivered: no\n--- desk: 1 sent, 0 received\n", "")
	f.SetAnswer(client.MethodPing, kinds.Errorf(kinds.Timeout, "desk gave no answer before the deadline; allow more time, or repeat with the same id").WithDelivered(kinds.DeliveredUnknown))
	f.WantResult(f.Run("ping", "desk", "-c", "1"), 3, "desk: seq=1 no answer in time: the daemon there may be stopped or have too much to do, or the network loses packets\n--- desk: 1 sent, 0 received\n", "")
	f.SetAnswer(client.MethodNotify, []client.Receipt{{To: "desk", ID: clitest.SomeID, Error: gone}, {To: "laptop", ID: clitest.SomeID, State: client.Held}})
	f.WantResult(f.Run("notify", "desk,laptop", "t", "x"), 5, "laptop\theld\n", "acpctl notify: desk: gone; delivered: no; repeat it with --id "+clitest.SomeID.String()+"\n")
}

// A method that is called as a flag is none in the message of a daemon that is silent.
func TestSilenceNamesNoFlag(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodAck, kinds.Errorf(kinds.DaemonUnavailable, "ack: connected to a socket, and the daemon has not answered for 5s"))
	f.WantResult(f.Run("inbox", "--ack", "1"), 6, "", "acpctl inbox: connected to a socket, and the daemon has not answered for 5s\n")
}

// What a peer gives as its reason adds no line that looks like one of acpctl's own.
func TestReasonsOfPeersStayOnOneLine(t *testing.T) {
	f := newDaemon(t)
	e := kinds.Errorf(kinds.NotAuthorized, "no\nacpctl query: all is well")
	e.From = clitest.DeskID.String()
	f.SetAnswer(client.MethodPeers, &client.Peers{})
	f.SetAnswer(client.MethodQuery, e)
	if got := f.Run("query", "desk", "x"); got.Code == 0 || strings.Count(got.Err, "\n") != 1 || !strings.Contains(got.Err, "says: no acpctl query: all is well") {
		t.Errorf("%+v", got)
	}
	busy := kinds.Errorf(kinds.Overloaded, "busy\ndesk: seq=1 time=0.1 ms idle, 0 active")
	busy.From = clitest.DeskID.String()
	f.SetAnswer(client.MethodPing, busy)
	if got := f.Run("ping", "desk", "-c", "1"); strings.Count(got.Out, "\n") != 2 || !strings.Contains(got.Out, " says: busy desk: seq=1") {
		t.Errorf("%+v", got)
	}
	f.SetAnswer(client.MethodNotify, []client.Receipt{{To: "desk", ID: clitest.SomeID, Error: busy}, {To: "laptop", ID: clitest.SomeID, State: client.Held}})
	if got := f.Run("notify", "desk,laptop", "t", "x"); strings.Count(got.Err, "\n") != 1 {
		t.Errorf("%+v", got)
	}
}

// A socket that nobody listens on any more is no daemon.
func TestStaleSocket(t *testing.T) {
	f := newDaemon(t)
	f.RemoveSocket(client.SocketName)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(f.Home, client.SocketName), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if got := f.Run("whoami"); got.Code != 6 {
		t.Errorf("%+v", got)
	}
}
