package profile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/harness/run"
	"github.com/acpd/acpd/integration/await"
)

// resumed runs the program for a request and returns the id of the conversation that it resumed, ""
// if it began one.
func resumed(t *testing.T, r *Runner, q Request) string {
	t.Helper()
	q.Prompt = "record"
	a, err := r.Run(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var got record
	if err := json.Unmarshal([]byte(a.Text), &got); err != nil {
		t.Fatal(err)
	}
	for _, arg := range got.Args {
		if id, ok := strings.CutPrefix(arg, "--resume="); ok {
			return id + " in " + got.get("HOME")
		}
	}
	return ""
}

// A conversation goes on for the same peer, agent and thread, and for nobody else.
// holds: security.md#headless-runs
func TestConversations(t *testing.T) {
	r, b := newRunner(t, run.None)
	q := Request{Peer: desk, Agent: "planner", Thread: "parser"}
	if id := resumed(t, r, q); id != "" {
		t.Errorf("the first one resumed %s", id)
	}
	first := resumed(t, r, q)
	if first == "" || resumed(t, r, q) != first {
		t.Error("it did not go on")
	}
	for _, other := range []Request{
		{Peer: laptop, Agent: "planner", Thread: "parser"}, {Peer: desk, Agent: "reviewer", Thread: "parser"}, {Peer: desk, Thread: "parser"},
		{Peer: desk, Agent: "planner", Thread: "parser "}, {Peer: desk, Agent: "planner"}, {Peer: desk, Agent: "plannerparser"}, {Peer: desk, Agent: "planner", Thread: "../" + desk.String()},
	} {
		if id := resumed(t, r, other); id != "" {
			t.Errorf("%+v resumed %s", other, id)
		}
	}
	if id := resumed(t, r, Request{Peer: desk, Agent: "planner"}); id != "" {
		t.Errorf("without a thread it resumed %s", id)
	}
	if resumed(t, r, Request{Peer: laptop, Agent: "planner", Thread: "parser"}) == first {
		t.Error("two peers met")
	}
	b.trust = "2" // desk was untrusted, and trusted again
	if id := resumed(t, r, q); id != "" {
		t.Errorf("after an untrust it resumed %s", id)
	}
	if len(r.Conversations.listPeer(desk.String())) != 1 {
		t.Error("other conversations of the peer outlive the untrust")
	}
}

// A program that has forgotten a conversation begins a new one.
func TestAConversationIsGone(t *testing.T) {
	r, b := newRunner(t, run.None)
	q := Request{Peer: desk, Thread: "parser"}
	resumed(t, r, q)
	home := filepath.Join(r.Conversations.listPeer(desk.String())[0].folder, "home", "session-1")
	if err := os.Remove(home); err != nil {
		t.Fatal(err)
	}
	if id := resumed(t, r, q); id != "" {
		t.Errorf("resumed %s", id)
	}
	if resumed(t, r, q) == "" || len(b.reserved) != 3 || len(b.settled) != 3 {
		t.Errorf("reserved %d, settled %d", len(b.reserved), len(b.settled))
	}
}

// A program whose count has become less counts anew; one that says nothing changes nothing.
func TestTokensOfOneRun(t *testing.T) {
	for _, test := range []struct {
		cumulative, said   bool
		before, read       uint64
		want, wantToBeKept uint64
	}{
		{false, true, 5, 100, 100, 5},
		{true, true, 60, 100, 40, 100},
		{true, true, 100, 60, 60, 60},
		{true, false, 100, 0, 0, 100},
	} {
		r := &Runner{Profile: &Profile{cumulative: test.cumulative}}
		c := &conversation{conversationState: conversationState{Tokens: test.before}}
		got := r.takeTokens(c, &reading{tokens: test.read, hasTokens: test.said})
		if got != test.want || c.Tokens != test.wantToBeKept {
			t.Errorf("%+v: %d, %d are kept", test, got, c.Tokens)
		}
	}
}

// holds: security.md#headless-runs
func TestAConversationThatIsTooLarge(t *testing.T) {
	r, _ := newRunner(t, run.None)
	if _, err := r.Run(t.Context(), Request{Peer: desk, Thread: "t", Prompt: "large"}); err != nil {
		t.Fatal(err)
	}
	if left := r.Conversations.listPeer(desk.String()); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}

// What a run leaves in its home neither stops the next one nor leads it elsewhere.
func TestHomesThatARunHasChanged(t *testing.T) {
	r, _ := newRunner(t, run.None)
	elsewhere := realDir(t)
	q := Request{Peer: desk, Thread: "t", Prompt: "pipe"}
	for _, q.Prompt = range []string{"pipe", "pipe", "record", elsewhere + " replace-home", "record"} {
		if _, err := r.Run(await.NewContext(t), q); err != nil {
			t.Fatalf("%s: %v", q.Prompt, err)
		}
	}
	if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) != 0 {
		t.Errorf("a run without confinement was led to another folder: %v, %v", entries, err)
	}
}

// Runs of one conversation take turns, those of others do not wait.
func TestTurns(t *testing.T) {
	r, _ := newRunner(t, run.None)
	inside := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, Request{Peer: desk, Thread: "t", Prompt: "stubborn", Progress: func(string) { close(inside) }})
		ended <- err
	}()
	<-inside
	if id := resumed(t, r, Request{Peer: desk, Thread: "other"}); id != "" {
		t.Errorf("resumed %s", id)
	}
	short, cancelShort := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, fmt.Errorf("waited"))
	defer cancelShort()
	if _, err := r.Run(short, Request{Peer: desk, Thread: "t", Prompt: "record"}); err == nil || err.Error() != "waited" {
		t.Errorf("a second run of the conversation: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if id := resumed(t, r, Request{Peer: desk, Thread: "t"}); id != "" {
		t.Errorf("resumed %s", id)
	}
}

func TestACancelledRunEndsNoConversation(t *testing.T) {
	r, _ := newRunner(t, run.None)
	if _, err := r.Run(t.Context(), Request{Peer: desk, Thread: "t", Prompt: "record"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	calledOff := errors.New("called off")
	if _, err := r.Run(ctx, Request{Peer: desk, Thread: "t", Prompt: "stubborn", Progress: func(string) { cancel(calledOff) }}); !errors.Is(err, calledOff) {
		t.Fatal(err)
	}
	a, err := r.Run(t.Context(), Request{Peer: desk, Thread: "t", Prompt: "record"})
	if err != nil {
		t.Fatal(err)
	}
	var got record
	if err := json.Unmarshal([]byte(a.Text), &got); err != nil || !slices.Contains(got.Args, "--resume=session-1") {
		t.Errorf("the next run has %q, %v", got.Args, err)
	}
}
