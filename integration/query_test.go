package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
)

func TestQueryIsAnsweredByAScript(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	desk.serve("reviewer", "--prompt", "--", "sh", "-c", `echo "You asked: $(cat), $ACP_FROM_NAME"`)
	if got, want := laptop.MustOutput("query", "desk", "Is the parser safe?"), "You asked: Is the parser safe?, laptop\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTheAgentThatIsMeantAnswers: by its name, by its domain, and discover says
// which there are.
func TestTheAgentThatIsMeantAnswers(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	desk.serve("reviewer", "--domain", "code.review", "--", "echo", "reviewer")
	desk.serve("builder", "--domain", "code,build", "--kinds", "query", "--concurrency", "7", "--", "echo", "builder")
	for _, c := range []struct{ to, domain, want string }{
		{"desk/reviewer", "", "reviewer"},
		{"desk/builder", "", "builder"},
		{"desk/builder", "code.review", "builder"},
		{"desk", "code.review", "reviewer"},
		{"desk", "code.review.go", "reviewer"},
		{"desk", "code.reviewer", "builder"},
		{"desk", "build", "builder"},
	} {
		if got := laptop.MustOutput("query", c.to, "who?", "--domain", c.domain); got != c.want+"\n" {
			t.Errorf("%s in domain %q: %q answers, want %s", c.to, c.domain, got, c.want)
		}
	}
	for _, c := range []struct{ to, domain, code string }{
		{"desk/nobody", "", "no_agent"},
		{"desk", "cooking", "unknown_domain"},
	} {
		if got := laptop.RunAcpctl(kinds.Code(c.code).Info().Exit, "query", c.to, "who?", "--domain", c.domain, "--json").Stdout.String(); !strings.Contains(got, `"code":"`+c.code+`"`) {
			t.Errorf("%s in domain %q: %s, want %s", c.to, c.domain, got, c.code)
		}
	}

	builder, reviewer := kinds.AgentDetails{Name: "builder", Answers: kinds.AnswersNow}, kinds.AgentDetails{Name: "reviewer", Answers: kinds.AnswersNow}
	for to, want := range map[string]kinds.Capabilities{
		"desk":          {AgentName: "desk", Agents: []string{"builder", "reviewer"}, Domains: []string{"build", "code", "code.review"}, MaxConcurrentTasks: 11, Details: []kinds.AgentDetails{builder, reviewer}},
		"desk/builder":  {AgentName: "builder", Domains: []string{"build", "code"}, MaxConcurrentTasks: 7, Details: []kinds.AgentDetails{builder}},
		"desk/reviewer": {AgentName: "reviewer", Domains: []string{"code.review"}, MaxConcurrentTasks: 4, Details: []kinds.AgentDetails{reviewer}},
	} {
		answer, err := laptop.Client.Discover(await.NewContext(t), client.DiscoverParams{To: to})
		if err != nil {
			t.Fatalf("discover %s: %v", to, err)
		}
		got, err := kinds.ParsePayload[kinds.Capabilities](answer.Payload)
		if err != nil || fmt.Sprint(*got) != fmt.Sprint(want) {
			t.Errorf("discover %s: %v, %v, want %v", to, got, err, want)
		}
	}
}

// TestQueryInterrupted: SIGINT ends acpctl with 130 and the script on the other side.
func TestQueryInterrupted(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	script := newFifo(t)
	desk.serve("reviewer", "--", "sh", "-c", `exec 3>"$1"; sh -c 'echo child >&3; exec sleep 300' & echo script >&3; wait`, "sh", script.path)
	asking := laptop.StartAcpctl("query", "desk", "How long?")
	script.expect(2)
	asking.Signal(syscall.SIGINT)
	stdout, stderr := asking.AwaitExit(130), asking.Stderr.String()
	if stdout != "" || !strings.Contains(stderr, "interrupted") {
		t.Errorf("got %q and %q", stdout, stderr)
	}
	script.gone(time.Second)
}

// TestSlowQueriesAreInNobodysWay: 64 queries are open on one connection, and a
// quick one, a ping and a cancel pass them.
func TestSlowQueriesAreInNobodysWay(t *testing.T) {
	t.Parallel()
	const slow = 64
	desk, laptop := friends(t)
	s := newStubborn()
	cancelled := make(chan struct{}, 1)
	desk.attach(client.AttachParams{Name: "worker", MaxConcurrent: 100}, client.Handler{
		Query: func(ctx context.Context, in *client.Inbound) (any, error) {
			if q, err := kinds.ParsePayload[kinds.Query](in.Payload); err == nil && q.Question == "quick" {
				return &kinds.Response{Summary: "quick"}, nil
			}
			return s.query(ctx, in)
		},
		Delegate: func(context.Context, *client.Inbound) (*kinds.Ack, error) { return nil, nil },
		Cancel: func(context.Context, *client.Inbound) (*kinds.Ack, error) {
			cancelled <- struct{}{}
			return nil, nil
		},
	})
	ctx, c := await.NewContext(t), laptop.Client
	given, err := c.Delegate(ctx, work("desk", "tidy up"))
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan error, slow)
	for range slow {
		go func() {
			_, err := c.Query(ctx, patient("desk", "slow"))
			answers <- err
		}()
	}
	for range slow {
		await.Receive(t, "slow query", s.began)
	}

	begun := time.Now()
	if answer, err := c.Query(ctx, question("desk", "quick")); summary(t, answer, err) != "quick" {
		t.Error("the quick query got another answer")
	}
	await.CheckDuration(t, "quick query", time.Since(begun), time.Second+slack)
	begun = time.Now()
	if _, err := c.Ping(ctx, client.PingParams{To: "desk"}); err != nil {
		t.Errorf("ping: %v", err)
	}
	await.CheckDuration(t, "ping", time.Since(begun), time.Second+slack)
	begun = time.Now()
	if _, err := c.Cancel(ctx, client.CancelParams{Ref: given.ID}); err != nil {
		t.Errorf("cancel: %v", err)
	}
	await.CheckDuration(t, "cancel", time.Since(begun), time.Second+slack)
	await.Receive(t, "cancel", cancelled)
	if n := len(s.gaveUp) + len(answers); n > 0 {
		t.Errorf("%d of the slow queries are over", n)
	}
	close(s.release)
	for range slow {
		if err := await.Receive(t, "answer", answers); err != nil {
			t.Errorf("slow query: %v", err)
		}
	}
}

// TestChainOfAgentsEnds: two agents that ask each other on, by ACP_ID or by
// --parent, are stopped after 16 hops.
func TestChainOfAgentsEnds(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	hops := filepath.Join(live.MakeTempDir(t), "hops")
	desk.serve("asker", "--prompt", "--stderr", "last", "--concurrency", "20", "--", "sh", "-c",
		`echo $ACP_HOPS >>"$1"; parent=$ACP_ID; unset ACP_ID; exec acpctl query laptop again --parent $parent`, "sh", hops)
	laptop.serve("asker", "--prompt", "--stderr", "last", "--concurrency", "20", "--", "sh", "-c",
		`echo $ACP_HOPS >>"$1"; exec acpctl query desk again`, "sh", hops)
	if stderr := laptop.StartAcpctl("query", "desk", "again").AwaitFailure(7); !strings.Contains(stderr, "the limit is 16") {
		t.Errorf("the chain ends with %q", stderr)
	}
	got, err := os.ReadFile(hops)
	if want := "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"; err != nil || strings.Join(strings.Fields(string(got)), " ") != want {
		t.Errorf("hops %q, %v, want %s", got, err, want)
	}
}
