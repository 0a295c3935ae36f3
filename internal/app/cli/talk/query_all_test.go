package talk

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// newFleet returns a daemon whose peers desk and laptop are connected, and shelf is not. They answer a query as answer says
// for their name.
func newFleet(t *testing.T, answer func(to string) (string, error)) (*clitest.FakeDaemon, map[string]*kinds.Query) {
	f, asked, ids := newDaemon(t), make(map[string]*kinds.Query), map[string]identity.ID{"desk": clitest.DeskID, "laptop": {7}}
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{
		{ID: ids["laptop"], Name: "laptop", State: client.PeerConnected}, {ID: ids["desk"], Name: "desk", State: client.PeerConnected}, {ID: identity.ID{8}, Name: "shelf", State: client.PeerTrusted},
	}})
	turn := make(chan bool, 1) // the handlers run at the same time
	f.SetHandler(client.MethodQuery, func(r *jsonrpc.Request) (any, error) {
		turn <- true
		defer func() { <-turn }()
		var p client.QueryParams
		err := r.ReadParams(&p)
		if err == nil {
			asked[p.To], err = kinds.ParsePayload[kinds.Query](p.Payload)
		}
		payload := ""
		if err == nil {
			payload, err = answer(p.To)
		}
		return &client.Answer{ID: p.ID, From: ids[p.To], FromAgent: "git", Kind: "response", RTTUS: 1500, Payload: wire.Payload(payload)}, err
	})
	return f, asked
}

// No line of an answer looks like one of another peer's, in a script and at a terminal.
func TestAnswersOfAllShowWhoSaidThem(t *testing.T) {
	f, _ := newFleet(t, func(to string) (string, error) {
		if to == "desk" {
			return `{"summary":"main\r\nlaptop/git\tfake\u001b[1m\n","data":{"a":[1,2]},"truncated":true}`, nil
		}
		return "", kinds.Errorf(kinds.Unreachable, "laptop: no answer").WithDelivered(kinds.DeliveredNo)
	})
	got := f.Run("query", "--all", "Which branch?")
	if want := "desk/git\tmain\ndesk/git\tlaptop/git\tfake\ndesk/git\t{\"a\":[1,2]}\n"; got.Code != 0 || got.Out != want {
		t.Errorf("exit code %d\n%swant\n%s", got.Code, got.Out, want)
	}
	for _, want := range []string{"acpctl query: skipped (not connected): shelf\n", "acpctl query: laptop: no answer; delivered: no", "acpctl query: desk: the answer is not whole"} {
		if !strings.Contains(got.Err, want) {
			t.Errorf("no %q in %s", want, got.Err)
		}
	}
	got = f.RunInteractive("", "query", "--all", "Which branch?")
	if want := ui.Bold + "desk/git" + ui.Plain + " · 1.5ms\n  main\n  laptop/git\tfake\n  {\n  \t\"a\": [\n  \t\t1,\n  \t\t2\n  \t]\n  }\n"; got.Out != want || !strings.HasPrefix(got.Err, "asking desk, laptop\nacpctl query: skipped (not connected): shelf\n") {
		t.Errorf("%q\nwant\n%q\n%s", got.Out, want, got.Err)
	}
}

// What a peer says in a failure is shown as its words, or under the cover.
func TestFailuresOfAll(t *testing.T) {
	f, _ := newFleet(t, func(to string) (string, error) {
		return "", &kinds.Error{Code: kinds.Timeout, Message: "busy\nlaptop: fake", From: map[string]string{"desk": clitest.DeskID.String(), "laptop": identity.ID{7}.String()}[to]}
	})
	got := f.Run("query", "--all", "Which branch?")
	if got.Code != frame.ExitTimeout || got.Out != "" || !strings.Contains(got.Err, "acpctl query: desk: desk says: busy laptop: fake\n") || strings.Count(got.Err, "\n") != 3 {
		t.Errorf("%+v", got)
	}
	got = f.Run("query", "--all", "Which branch?", "--for-model")
	if got.Code != frame.ExitTimeout || strings.Count(got.Out, "Message from peer ") != 2 || strings.Contains(got.Err, "busy") {
		t.Errorf("%+v", got)
	}
	got = f.Run("query", "--all", "Which branch?", "--json")
	if got.Code != frame.ExitTimeout || got.Err != "" || !regexp.MustCompile(`\A{"to":"shelf","skipped":"not connected"}\n({"to":"(desk|laptop)","id":".{36}","error":{"code":"timeout",.*}}\n){2}\z`).MatchString(got.Out) {
		t.Errorf("%+v", got)
	}
}

// A peer whose session answers has ten minutes, and others as long as usual.
func TestDeadlinesOfAll(t *testing.T) {
	f, asked := newFleet(t, func(string) (string, error) { return `{"summary":"here"}`, nil })
	f.SetHandler(client.MethodDiscover, func(r *jsonrpc.Request) (any, error) {
		var p client.DiscoverParams
		says := `{"details":[{"name":"git","answers":"now"}]}`
		if err := r.ReadParams(&p); err != nil || p.To == "desk" {
			says = `{"details":[{"name":"claude","answers":"wakes"}]}`
		}
		return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "capabilities", Payload: wire.Payload(says)}, nil
	})
	for args, want := range map[string]string{"": "600000 0", "--deadline 1m": "60000 60000"} {
		f.Run(append(strings.Fields("query --all "+args), "Which branch?")...)
		if got := fmt.Sprint(asked["desk"].DeadlineMS, asked["laptop"].DeadlineMS); got != want {
			t.Errorf("%q: %s, want %s", args, got, want)
		}
	}
}

// After an interrupt, what has come stays, and the exit code is that of an interrupt.
func TestInterruptOfAll(t *testing.T) {
	release := make(chan bool)
	defer close(release)
	f, _ := newFleet(t, func(to string) (string, error) { return `{"summary":"here"}`, nil })
	f.SetHandler(client.MethodQuery, func(r *jsonrpc.Request) (any, error) {
		var p client.QueryParams
		if err := r.ReadParams(&p); err != nil || p.To == "laptop" {
			<-release
		}
		return &client.Answer{ID: p.ID, From: clitest.DeskID, FromAgent: "git", Kind: "response", Payload: wire.Payload(`{"summary":"here"}`)}, nil
	})
	got := f.RunUntil(ui.Terminal{}, 2, "query", "--all", "Which branch?")
	if got.Code != frame.ExitInterrupted || got.Out != "desk/git\there\n" || !strings.HasSuffix(got.Err, "acpctl query: interrupted\n") || strings.Contains(got.Err, "laptop") {
		t.Errorf("%+v", got)
	}
}
