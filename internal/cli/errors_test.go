package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// Every code of the table ends a command with its exit code, in words and as JSON.
func TestEveryCodeHasItsExit(t *testing.T) {
	f := newFake(t)
	for _, row := range kinds.Codes() {
		// Exit 7 is for what the peer raised.
		local := row.Exit
		if local == exitFailed {
			local = exitLocal
		}
		f.on(client.MethodQuery, kinds.Errorf(row.Code, "what went wrong"))
		f.want(f.run("query", "desk", "hi"), local, "", "acpctl query: what went wrong\n")
		theirs := kinds.Errorf(row.Code, "what went wrong")
		theirs.From = deskID.String()
		f.on(client.MethodQuery, theirs)
		f.want(f.run("query", "desk", "hi"), row.Exit, "", "acpctl query: "+deskID.String()+" says: what went wrong\n")
		f.want(f.run("query", "desk", "hi", "--json"), row.Exit,
			fmt.Sprintf(`{"error":{"code":%q,"message":"what went wrong","retryable":%v,"from":%q}}`+"\n", row.Code, row.Retryable, deskID), "")
	}
	f.on(client.MethodQuery, &kinds.Error{Code: "of_the_future", Message: "new", From: deskID.String()})
	f.want(f.run("query", "desk", "hi"), exitFailed, "", "acpctl query: "+deskID.String()+" says: new\n")
	f.on(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: me, Name: "laptop"}, {ID: deskID, Name: "desk"}}})
	f.want(f.run("query", "de5c", "hi"), exitFailed, "", "acpctl query: desk says: new\n")
	f.on(client.MethodQuery, client.MethodNotFound("query"))
	if got := f.run("query", "desk", "hi", "--json"); got.code != exitLocal || !strings.HasPrefix(got.out, `{"error":{"code":"internal"`) {
		t.Errorf("a daemon that does not know the method: %+v", got)
	}
}

// An interrupt before the answer is 130.
func TestInterrupted(t *testing.T) {
	f := newFake(t)
	asked := make(chan struct{})
	gone := make(chan struct{})
	ctx, interrupt := context.WithCancel(t.Context())
	f.does(client.MethodQuery, func(r *client.Request) (any, error) { close(asked); <-gone; return nil, nil })
	go func() { <-asked; interrupt() }()
	var out strings.Builder
	a := &app{out: &out, err: &out}
	if code := a.run(ctx, []string{"--home", f.home, "query", "desk", "hi"}); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	close(gone)
	a.daemon.Close()
	if got := out.String(); got != "acpctl query: interrupted\n" {
		t.Errorf("%q", got)
	}
}

// What a daemon tells agents to do is told in words of the command line.
func TestRemediesCanBeTyped(t *testing.T) {
	f := newFake(t)
	id := someID.String()
	f.on(client.MethodCancel, kinds.Errorf(kinds.NotFound, "ref: say in `to` whom it went to"))
	f.want(f.run("cancel", id), exitLocal, "", "acpctl cancel: ID: "+id+" names no delegation that was given here: see acpctl tasks\n")
	f.on(client.MethodPing, kinds.Errorf(kinds.DaemonUnavailable, "gone: repeat it with the same id"))
	f.want(f.run("ping", "desk", "-c", "1"), 6, "", "acpctl ping: gone: try again\n")
	f.on(client.MethodQuery, kinds.Errorf(kinds.Timeout, "allow more time, or repeat with the same id"))
	f.want(f.run("query", "desk", "x"), 3, "", "acpctl query: allow more time, or try again\n")
	f.on(client.MethodPing, kinds.Errorf(kinds.UnknownPeer, "to: nobody"))
	f.want(f.run("ping", "desk", "-c", "1"), 5, "", "acpctl ping: PEER: nobody\n")
	f.on(client.MethodWait, kinds.Errorf(kinds.NotFound, "id: unknown"))
	f.want(f.run("wait", id), exitLocal, "", "acpctl wait: ID: unknown\n")
	f.on(client.MethodQuery, kinds.Errorf(kinds.Invalid, "max_tokens: too many"))
	f.want(f.run("query", "desk", "x"), exitUsage, "", "acpctl query: --max-tokens: too many\nSee: acpctl query --help\n")
	f.on(client.MethodQuery, kinds.Errorf(kinds.Invalid, "to: nobody's"))
	f.want(f.run("query", "desk/", "x"), exitUsage, "", "acpctl query: PEER: nobody's\nSee: acpctl query --help\n")
	f.on(client.MethodQuery, kinds.Errorf(kinds.Invalid, "no such thing as typed"))
	f.want(f.run("query", "desk", "x"), exitLocal, "", "acpctl query: no such thing as typed\n")
	f.on(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: deskID, Name: "desk", State: client.PeerBlocked}}})
	for _, ref := range []string{"desk", deskID.String()[:8]} {
		if got := f.run("trust", ref); got.code != kinds.UnknownPeer.Info().Exit || !strings.Contains(got.err, "by its full id, "+deskID.String()) {
			t.Errorf("%+v", got)
		}
	}
}

// Where a message is lost, the text says whether it may have arrived, and under which id
// it can be repeated; --json has both in the details.
func TestLossSaysWhetherItWasDelivered(t *testing.T) {
	f := newFake(t)
	for verb, args := range map[string][]string{"query": {"x"}, "delegate": {"x"}, "notify": {"t", "x"}} {
		for _, code := range []kinds.Code{kinds.Unreachable, kinds.Timeout} {
			for _, delivered := range []kinds.Delivered{kinds.DeliveredNo, kinds.DeliveredUnknown} {
				var sent client.Head
				f.does(verb, func(r *client.Request) (any, error) {
					if err := json.Unmarshal(r.Params, &sent); err != nil {
						return nil, err
					}
					return nil, kinds.Errorf(code, "gone").WithDelivered(delivered)
				})
				line := append([]string{verb, "desk"}, args...)
				got := f.run(line...)
				f.want(got, code.Info().Exit, "", "acpctl "+verb+": gone; delivered: "+string(delivered)+"; repeat it with --id "+sent.ID.String()+"\n")
				got = f.run(append(line, "--json")...)
				if want := `"details":{"delivered":"` + string(delivered) + `","id":"` + sent.ID.String() + `"}`; !strings.Contains(got.out, want) {
					t.Errorf("%s\nwant %s", got.out, want)
				}
			}
		}
		// The daemon's remedy is not told twice, and where there is no daemon it comes last.
		line := append([]string{verb, "desk", "--id", someID.String()}, args...)
		f.on(verb, kinds.Errorf(kinds.Unreachable, "gone; repeat with the same id when it is back").WithDelivered(kinds.DeliveredUnknown))
		f.want(f.run(line...), 5, "", "acpctl "+verb+": gone; repeat with --id "+someID.String()+" when it is back; delivered: unknown\n")
		f.on(verb, kinds.Errorf(kinds.DaemonUnavailable, "no daemon; start one with: acpd").WithDelivered(kinds.DeliveredNo))
		f.want(f.run(line...), 6, "", "acpctl "+verb+": no daemon; start one with: acpd\n")
	}
	gone := kinds.Errorf(kinds.Unreachable, "desk: gone").WithDelivered(kinds.DeliveredNo)
	f.on(client.MethodPing, gone)
	f.want(f.run("ping", "desk", "-c", "1"), 5, "desk: seq=1 gone; delivered: no\n--- desk: 1 sent, 0 received\n", "")
	f.on(client.MethodPing, kinds.Errorf(kinds.Timeout, "desk gave no answer before the deadline; allow more time, or repeat with the same id").WithDelivered(kinds.DeliveredUnknown))
	f.want(f.run("ping", "desk", "-c", "1"), 3, "desk: seq=1 no answer in time: the daemon there may be stopped or have too much to do, or the network loses packets\n--- desk: 1 sent, 0 received\n", "")
	f.on(client.MethodNotify, []client.Receipt{{To: "desk", ID: someID, Error: gone}, {To: "laptop", ID: someID, State: client.Held}})
	f.want(f.run("notify", "desk,laptop", "t", "x"), 5, "laptop\theld\n", "acpctl notify: desk: gone; delivered: no; repeat it with --id "+someID.String()+"\n")
}

// A method that is called as a flag is none in the message of a daemon that is silent.
func TestSilenceNamesNoFlag(t *testing.T) {
	f := newFake(t)
	f.on(client.MethodAck, kinds.Errorf(kinds.DaemonUnavailable, "ack: connected to a socket, and the daemon has not answered for 5s"))
	f.want(f.run("inbox", "--ack", "1"), 6, "", "acpctl inbox: connected to a socket, and the daemon has not answered for 5s\n")
}

func TestRequestNeedsARecipient(t *testing.T) {
	f := newFake(t)
	if got := f.run("channel", "send", "chan_1", "hi", "--request"); got.code != exitUsage || !strings.Contains(got.err, "--to") {
		t.Errorf("%+v", got)
	}
}

// What a peer gives as its reason adds no line that looks like one of acpctl's own.
func TestReasonsOfPeersStayOnOneLine(t *testing.T) {
	f := newFake(t)
	e := kinds.Errorf(kinds.NotAuthorized, "no\nacpctl query: all is well")
	e.From = deskID.String()
	f.on(client.MethodPeers, &client.Peers{})
	f.on(client.MethodQuery, e)
	if got := f.run("query", "desk", "x"); got.code == 0 || strings.Count(got.err, "\n") != 1 || !strings.Contains(got.err, "says: no acpctl query: all is well") {
		t.Errorf("%+v", got)
	}
}
