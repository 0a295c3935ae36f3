package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/cli/clitest"
	"github.com/acpd/acpd/internal/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// A query is repeated only while it cannot have arrived.
func TestWaitForPeer(t *testing.T) {
	f := newDaemon(t)
	calls := 0
	answers := func(errs ...error) {
		calls = 0
		f.SetHandler(client.MethodQuery, func(*jsonrpc.Request) (any, error) {
			if calls++; calls <= len(errs) {
				return nil, errs[calls-1]
			}
			return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "response", Payload: wire.Payload(`{"summary":"here"}`)}, nil
		})
	}
	away := kinds.Errorf(kinds.Unreachable, "away").WithDelivered(kinds.DeliveredNo)
	answers(away, away)
	if got := f.Run("query", "desk", "hi", "--wait-online", "20s"); got.Out != "here\n" || calls != 3 {
		t.Errorf("%+v after %d calls", got, calls)
	}
	for _, end := range []error{
		kinds.Errorf(kinds.Unreachable, "gone").WithDelivered(kinds.DeliveredUnknown),
		kinds.Errorf(kinds.UnknownPeer, "who?"),
	} {
		answers(end)
		if got := f.Run("query", "desk", "hi", "--wait-online", "20s"); got.Code != 5 || calls != 1 {
			t.Errorf("%+v after %d calls", got, calls)
		}
	}
	answers(away)
	if got := f.Run("query", "desk", "hi"); got.Code != 5 || calls != 1 {
		t.Errorf("%+v after %d calls", got, calls)
	}
}

// ACP_ID is the parent of what is sent, unless another one is named.
func TestParent(t *testing.T) {
	f := newDaemon(t)
	var p client.QueryParams
	f.SetHandler(client.MethodQuery, func(r *jsonrpc.Request) (any, error) {
		p = client.QueryParams{}
		return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "response", Payload: wire.Payload(`{"summary":""}`)}, r.ReadParams(&p)
	})
	t.Setenv("ACP_ID", clitest.SomeID.String())
	f.Run("query", "desk", "hi")
	if p.Parent != clitest.SomeID || p.ID.IsZero() || p.Thread != "" {
		t.Errorf("%+v", p)
	}
	other := wire.NewMessageID()
	f.Run("query", "desk", "hi", "--parent", other.String())
	if p.Parent != other {
		t.Errorf("%+v", p)
	}
	f.Run("query", "desk", "hi", "--parent", "")
	if !p.Parent.IsZero() {
		t.Errorf("an empty --parent: %+v", p)
	}
	t.Setenv("ACP_ID", "")
	f.Run("query", "desk", "hi", "--thread", "t")
	if !p.Parent.IsZero() || p.Thread != "t" {
		t.Errorf("%+v", p)
	}
}

// A call whose parent has ended is not to be repeated: a repeat would end at once.
func TestParentThatHasEnded(t *testing.T) {
	f := newDaemon(t)
	ended := kinds.Errorf(kinds.Cancelled, "the request that this follows from ended")
	ended.Details = jsontext.Value(`{"delivered":"unknown","reason":"parent_ended"}`)
	f.SetAnswer(client.MethodQuery, ended)
	f.WantResult(f.Run("query", "desk", "hi"), 1, "", "acpctl query: the request that this follows from ended; --parent '' names none; delivered: unknown\n")
}

// writtenLines sends what is written, as a terminal's lines.
type writtenLines chan string

func (w writtenLines) Write(b []byte) (int, error) {
	w <- string(b)
	return len(b), nil
}

// Who asks a session that answers only when it is active hears so while the question is under way; and
// nobody does who asks another agent, or gets an answer soon.
func TestWhoWaitsForASessionIsTold(t *testing.T) {
	f := newDaemon(t)
	asked, release := make(chan string, 9), make(chan struct{}, 9)
	f.SetHandler(client.MethodQuery, func(*jsonrpc.Request) (any, error) {
		<-release
		return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "response", Payload: wire.Payload(`{"summary":"here"}`)}, nil
	})
	f.SetHandler(client.MethodDiscover, func(r *jsonrpc.Request) (any, error) {
		var p client.DiscoverParams
		err := r.ReadParams(&p)
		asked <- p.To
		return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "capabilities", Payload: wire.Payload(`{"agent_name":"desk","agents":["claude","serve"],"sessions":["claude"]}`)}, err
	})
	told, ended := make(writtenLines, 9), make(chan int, 1)
	run := func(to string) {
		go func() {
			ended <- f.RunWithoutHome(t.Context(), ui.Terminal{In: strings.NewReader(""), Out: io.Discard, Err: told}, "--home", f.Home, "query", to, "hi")
		}()
	}
	run("desk/claude")
	if got := await.Receive(t, "what is told", told); got != "desk/claude answers when it is active: waiting\n" || <-asked != "desk/claude" {
		t.Errorf("told %q", got)
	}
	release <- struct{}{}
	await.Receive(t, "the end", ended)
	run("desk/serve")
	if got := await.Receive(t, "a discover", asked); got != "desk/serve" {
		t.Errorf("asked about %q", got)
	}
	for _, to := range []string{"", "desk", "desk/claude"} { // at first, for desk/serve
		release <- struct{}{}
		if to != "" {
			run(to)
		}
		if code := await.Receive(t, "the end", ended); code != 0 || len(told) != 0 || len(asked) != 0 {
			t.Errorf("%q ends with %d; %d lines are told", to, code, len(told))
		}
	}
}
