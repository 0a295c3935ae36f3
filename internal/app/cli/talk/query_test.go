package talk

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
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

// A --payload that is empty, as a variable that is not set is, is found out before anything is asked or sent.
func TestEmptyPayload(t *testing.T) {
	f := newDaemon(t)
	for _, verb := range []string{"query", "delegate", "notify"} {
		f.WantResult(f.Run(verb, "desk", "--payload", ""), frame.ExitUsage, "", "acpctl "+verb+": --payload: empty: give a value, or leave the flag out\nSee: acpctl "+verb+" --help\n")
	}
}

// At a terminal query asks for the question that is missing.
func TestQueryAsksForTheQuestion(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodQuery, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "response", Payload: wire.Payload(`{"summary":"main"}`)})
	f.WantResult(f.RunAtTerminal(ui.Terminal{InTTY: true}, "Which branch?\n", "query", "desk"), 0, "main\n", "Question for desk: ")
	if got := f.RunAtTerminal(ui.Terminal{InTTY: true}, "\n", "query", "desk"); got.Code != frame.ExitUsage || !strings.Contains(got.Err, "question: empty") {
		t.Errorf("%+v", got)
	}
	f.SetAnswer(client.MethodDiscover, kinds.Errorf(kinds.UnknownPeer, `to: no peer "hi" is known`))
	f.WantResult(f.RunAtTerminal(ui.Terminal{InTTY: true}, "Which branch?\n", "query", "hi"), 5, "", "acpctl query: PEER: no peer \"hi\" is known\n")
}

// writtenLines has what is written, as a terminal's lines.
type writtenLines chan string

func (w writtenLines) Write(b []byte) (int, error) {
	w <- string(b)
	return len(b), nil
}

// Who asks a session is told that the answer waits for a turn; nobody is who asks another agent, or gets an answer soon.
func TestWhoWaitsForASessionIsTold(t *testing.T) {
	patience := turnPatience
	t.Cleanup(func() { turnPatience = patience })
	for _, c := range []struct {
		to       string
		patience time.Duration
		looks    int // at what the peer says, for the deadline and to tell
		want     string
	}{
		{"desk/claude", time.Millisecond, 2, "desk/claude answers when its session has a turn: waiting for that\n"},
		{"desk/serve", time.Millisecond, 2, ""},
		{"desk/claude", time.Hour, 1, ""},
	} {
		turnPatience = c.patience
		f, looks, told, release := newDaemon(t), make(chan string, 9), make(writtenLines, 9), make(chan bool)
		f.SetHandler(client.MethodDiscover, func(*jsonrpc.Request) (any, error) {
			looks <- "a look"
			return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "capabilities", Payload: wire.Payload(`{"details":[{"name":"claude","answers":"turn"},{"name":"serve","answers":"now"}]}`)}, nil
		})
		f.SetHandler(client.MethodQuery, func(*jsonrpc.Request) (any, error) {
			<-release
			return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "response", Payload: wire.Payload(`{"summary":"here"}`)}, nil
		})
		ended := make(chan int, 1)
		go func() {
			ended <- f.RunWithoutHome(t.Context(), ui.Terminal{In: strings.NewReader(""), Out: io.Discard, Err: told}, "--home", f.Home, "query", c.to, "hi")
		}()
		for range c.looks {
			await.Receive(t, "a look at what the peer says", looks)
		}
		if c.want != "" {
			if got := await.Receive(t, "what is told", told); got != c.want {
				t.Errorf("told %q", got)
			}
		}
		close(release)
		if code := await.Receive(t, "the end", ended); code != 0 || len(looks)+len(told) != 0 {
			t.Errorf("%s ends with %d; %d lines are told, after %d more looks", c.to, code, len(told), len(looks))
		}
	}
}

// A question without a deadline has ten minutes where a session answers it, as far as the peer says.
func TestDeadlineOfASession(t *testing.T) {
	f := newDaemon(t)
	var asked kinds.Query
	f.SetHandler(client.MethodQuery, func(r *jsonrpc.Request) (any, error) {
		var p client.QueryParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		q, err := kinds.ParsePayload[kinds.Query](p.Payload)
		asked = *q
		return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "response", Payload: wire.Payload(`{"summary":"here"}`)}, err
	})
	const both = `{"agents":["claude","codex","serve"],"sessions":["codex"],"details":[{"name":"claude","answers":"wakes"},{"name":"codex","answers":"turn"},{"name":"serve","answers":"now"}]}`
	for _, c := range []struct {
		says, args string
		want       uint64
	}{
		{both, "desk/claude", 600_000},
		{both, "desk/codex", 600_000},
		{both, "desk/codex --deadline 1m", 60_000},
		{both, "desk/serve", 0},
		{both, "desk/nobody", 0},
		{both, "desk", 0},
		{`{"agents":["claude"],"details":[{"name":"claude","answers":"wakes"}]}`, "desk", 600_000},
		{`{"details":[{"name":"claude","answers":"wakes"}]}`, "desk/claude", 600_000},
		{`{"agent_name":"claude","sessions":["claude"]}`, "desk/claude", 600_000}, // of an older peer
		{`{"agents":["claude"]}`, "desk/claude", 0},
		{`{"agents":["claude"],"details":[{"name":"claude","answers":"sometimes"}]}`, "desk/claude", 0},
		{`{}`, "desk", 0},
		{``, "desk/claude", 0},
	} {
		f.SetAnswer(client.MethodDiscover, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "capabilities", Payload: wire.Payload(c.says)})
		if c.says == "" {
			f.SetAnswer(client.MethodDiscover, kinds.Errorf(kinds.NotAuthorized, "no"))
		}
		asked.DeadlineMS = 1
		if got := f.Run(append([]string{"query"}, append(strings.Fields(c.args), "hi")...)...); got.Code != 0 || asked.DeadlineMS != c.want {
			t.Errorf("%s, where the peer says %s: %d ms, want %d; %+v", c.args, c.says, asked.DeadlineMS, c.want, got)
		}
	}
}
