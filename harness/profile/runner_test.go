package profile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness/run"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

var desk, laptop = identity.ID{1}, identity.ID{2}

// What a run is given: the prompt on standard input alone, arguments and environment of the
// profile, a home of its own.
// holds: security.md#headless-runs
func TestWhatARunIsGiven(t *testing.T) {
	t.Setenv("PASSED", "on")
	t.Setenv("SECRET", "kept")
	r, b := newRunner(t, run.None)
	r.Model = "large"
	prompt := "--resume=x $(id) {home} \x1b[31m\n\"quoted\" record"
	id := wire.NewMessageID()
	a, err := r.Run(t.Context(), Request{Peer: desk, ID: id, Prompt: prompt})
	if err != nil {
		t.Fatal(err)
	}
	var got record
	if err := json.Unmarshal([]byte(a.Text), &got); err != nil {
		t.Fatal(err)
	}
	if want := []string{"--tools=none", "--model", "large"}; !slices.Equal(got.Args, want) || got.Stdin != prompt {
		t.Errorf("args %q, stdin %q", got.Args, got.Stdin)
	}
	home := got.get("HOME")
	folder := filepath.Dir(home)
	want := []string{"FIXED=in " + home, "GORACE=atexit_sleep_ms=0", "HOME=" + home, "LANG=C.UTF-8", "PASSED=on", "PATH=" + run.SystemPath, "TERM=dumb", "TMPDIR=" + folder + "/tmp"}
	if !slices.Equal(got.Env, want) || got.Dir != folder+"/dir" || !slices.Contains(got.Home, "/.config/settings=tools none") {
		t.Errorf("env %q, dir %s, home %q", got.Env, got.Dir, got.Home)
	}
	if len(b.settled) != 1 || b.settled[0] != (client.SettleParams{ID: "1", Cost: 0.25, Tokens: 100}) || len(b.reserved) != 1 ||
		b.reserved[0] != (client.ReserveParams{Profile: "fake", Peer: desk, Ref: id, MaxCost: 1, MaxTokens: 1000}) {
		t.Errorf("reserved %+v, settled %+v", b.reserved, b.settled)
	}
	if _, err := os.Stat(folder); err == nil {
		t.Error("something is left of a run without a thread")
	}
}

// Each way in which a program can fail ends as an error that says no more than a peer may
// hear, and what it may have cost counts if it did not say.
// holds: security.md#headless-runs
func TestProgramsThatFail(t *testing.T) {
	for _, c := range []struct {
		what    string
		code    kinds.Code
		settled bool
	}{
		{"flood", kinds.Internal, false}, {"long", kinds.Internal, false}, {"half", kinds.Internal, false}, {"mute", kinds.Internal, true},
		{"failed", kinds.Internal, true}, {"failed-quietly", kinds.Internal, true}, {"killed", kinds.Internal, false}, {"exit", kinds.Internal, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			r, b := newRunner(t, run.None)
			r.Profile.Limits.Output = 8 << 20
			_, err := r.Run(t.Context(), Request{Peer: desk, Thread: "t", Prompt: c.what})
			wantCode(t, err, c.code, "secret", r.Conversations.root, "away")
			if settled := len(b.settled) == 1; settled != c.settled {
				t.Errorf("settled: %+v", b.settled)
			}
			r.Tell = true
			if _, err := r.Run(t.Context(), Request{Peer: desk, Prompt: c.what}); c.what == "failed" && !strings.Contains(err.Error(), "away") {
				t.Errorf("with --stderr=last: %v", err)
			}
		})
	}
}

// A deadline, a cancelled delegation and the end of serving end every process of a run.
func TestRunsThatAreEnded(t *testing.T) {
	for _, what := range []string{"stubborn", "fork"} {
		t.Run(what, func(t *testing.T) {
			r, b := newRunner(t, run.None)
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("called off")
			_, err := r.Run(ctx, Request{Peer: desk, Thread: "t", Prompt: what, Progress: func(string) { cancel(why) }})
			if !errors.Is(err, why) || len(b.settled) != 0 {
				t.Errorf("%v, settled %+v", err, b.settled)
			}
			r.Profile.Limits.Timeout = 300 * time.Millisecond
			_, err = r.Run(t.Context(), Request{Peer: desk, Thread: "t", Prompt: what})
			wantCode(t, err, kinds.Timeout)
			left := r.Conversations.listPeer(desk.String())
			if len(left) != 0 {
				t.Errorf("conversations are left: %+v", left)
			}
		})
	}
}

func TestWhatIsToldBesideTheText(t *testing.T) {
	r, _ := newRunner(t, run.None)
	a, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "denied"})
	if err != nil || a.Text != "I could not" || string(a.Data) != `{"permission_denials":["Bash","Read"]}` {
		t.Errorf("%+v, %v", a, err)
	}
	var said []string
	if _, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "talk", Progress: func(s string) { said = append(said, s) }}); err != nil || !slices.Equal(said, []string{"step 0", "step 1", "step 2"}) {
		t.Errorf("said %q, %v", said, err)
	}
}

func TestNoBudget(t *testing.T) {
	r, b := newRunner(t, run.None)
	b.refuse = kinds.Errorf(kinds.Overloaded, "%s: 50 runs a day: raise spending in config.yaml", client.MethodBudgetReserve).WithReason(kinds.ReasonBudgetUsed)
	_, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "record"})
	wantCode(t, err, kinds.Overloaded, "config.yaml", "50")
	b.refuse = kinds.Errorf(kinds.Overloaded, "%s: the disk of /home/somebody is full", client.MethodBudgetReserve)
	_, err = r.Run(t.Context(), Request{Peer: desk, Prompt: "record"})
	wantCode(t, err, kinds.Overloaded, "home", "today", "used up") // that would not be true
	b.refuse = errors.New("the daemon is away: /home/somebody")
	_, err = r.Run(t.Context(), Request{Peer: desk, Prompt: "record"})
	wantCode(t, err, kinds.Internal, "home")
	if len(b.settled) != 0 {
		t.Errorf("%+v", b.settled)
	}
}

func TestWhatCannotBeStarted(t *testing.T) {
	r, b := newRunner(t, run.None)
	r.Program.Path = "/nowhere/agent"
	_, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "record"})
	wantCode(t, err, kinds.Internal, "nowhere")
	if len(b.settled) != 1 || b.settled[0] != (client.SettleParams{ID: "1", NotBegun: true}) {
		t.Errorf("a run that did not begin costs: %+v", b.settled)
	}
}

// A run whose output is not complete has failed, although there is a text.
func TestARunThatBreaksOff(t *testing.T) {
	r, _ := newRunner(t, run.None)
	read := r.Profile.read
	r.Profile.read = func(r *reading, event any) {
		read(r, event)
		r.setText(event, "text")
	}
	a, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "break-off"})
	if err == nil || !strings.Contains(err.Error(), "before its answer was complete") {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err = r.Run(t.Context(), Request{Peer: desk, Prompt: "talk"}); err != nil || a.Text != "done" {
		t.Errorf("%+v, %v", a, err)
	}
}
