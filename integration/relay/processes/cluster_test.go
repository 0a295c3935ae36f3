package processes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// asker asks a peer one question after the other, and keeps what came of each.
type asker struct {
	from, to *live.Machine
	seen     string // the file that lists the questions that the peer's agent has got

	mu       sync.Mutex
	answered map[string]bool
	failed   map[string]kinds.Delivered
	longest  time.Duration // until a question failed
}

// newAsker attaches an agent to the peer.
func newAsker(t *testing.T, from, to *live.Machine) *asker {
	a := &asker{from: from, to: to, seen: filepath.Join(t.TempDir(), "seen"), answered: make(map[string]bool), failed: make(map[string]kinds.Delivered)}
	to.StartAcpctl("serve", "--name", "reviewer", "--prompt", "--", "sh", "-c", `read -r q; echo "$q" >>"$0"; echo "You asked: $q"`, a.seen)
	await.Until(t, "reviewer is attached", func() bool {
		s, err := to.Client.Status(await.NewContext(t))
		return err == nil && len(s.Agents) == 1
	})
	return a
}

// ask asks until ctx ends.
func (a *asker) ask(ctx context.Context, t *testing.T) {
	for i := 0; ctx.Err() == nil; i++ {
		token := fmt.Sprintf("%s-%d", a.from.Name, i)
		payload, err := json.Marshal(kinds.Query{Question: token})
		if err != nil {
			t.Error(err)
			return
		}
		began := time.Now()
		answer, err := a.from.Client.Query(await.NewContext(t), client.QueryParams{To: a.to.Name, Payload: wire.Payload(payload)})
		took := time.Since(began)
		a.mu.Lock()
		if err == nil {
			a.answered[token] = true
			if text := string(answer.Payload); !strings.Contains(text, "You asked: "+token) || strings.Contains(text, token+"0") {
				t.Errorf("%s is answered with %s", token, text)
			}
		} else {
			a.failed[token] = kinds.AsError(err).Delivered()
			a.longest = max(a.longest, took)
		}
		a.mu.Unlock()
	}
}

func (a *asker) countAnswered() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.answered)
}

// check compares what was said of each question with what the peer's agent has got.
func (a *asker) check(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(a.seen)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int)
	for _, token := range strings.Fields(string(text)) {
		got[token]++
	}
	for token := range a.answered {
		if got[token] != 1 {
			t.Errorf("%s was answered, and the agent has got it %d times", token, got[token])
		}
	}
	for token, delivered := range a.failed {
		if delivered == kinds.DeliveredNo && got[token] != 0 || got[token] > 1 {
			t.Errorf("%s failed, delivered is %q, and the agent has got it %d times", token, delivered, got[token])
		}
	}
	t.Logf("%s: %d questions answered, %d failed, the slowest after %s", a.from.Name, len(a.answered), len(a.failed), a.longest.Round(time.Millisecond))
}

// TestClusterLosesServers: two daemons, each at two servers of a cluster of three, ask each other without
// pause while each server is killed and started again. After each kill answers go on by another server, what fails
// does so in time, and what is said of each question is true.
func TestClusterLosesServers(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	desk, laptop := newWideMachine(t, "desk", w.desk), newWideMachine(t, "laptop", w.laptop)
	desk.Trust(laptop)
	laptop.Trust(desk)
	awaitPing(t, desk)
	askers := []*asker{newAsker(t, desk, laptop), newAsker(t, laptop, desk)}
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for _, a := range askers {
		asking.Go(func() { a.ask(ctx, t) })
	}
	awaitAnswers := func(what string) {
		t.Helper()
		began := time.Now()
		for _, a := range askers {
			before := a.countAnswered()
			await.Until(t, a.from.Name+" has ten answers "+what, func() bool { return a.countAnswered() >= before+10 })
		}
		t.Logf("%s, ten answers each way took %s", what, time.Since(began).Round(time.Millisecond))
	}
	awaitAnswers("at first")
	for _, s := range []*server{w.laptop[0], w.desk[0], w.desk[1]} {
		s.process.Signal(syscall.SIGKILL)
		<-s.process.Ended
		awaitAnswers("after " + s.addr + " was killed")
		s.start()
		for _, m := range []*live.Machine{desk, laptop} {
			await.Until(t, "both relays of "+m.Name+" are up", func() bool {
				up := 0
				for _, r := range relaysOf(t, m) {
					if r.State == client.RelayUp {
						up++
					}
				}
				return up == 2
			})
		}
	}
	stop()
	asking.Wait()
	for _, a := range askers {
		a.check(t)
		const atLatest, slack = 8 * time.Second, 3 * time.Second // docs/reach.md; a busy machine
		await.CheckDuration(t, "the failure of a question", a.longest, atLatest+slack)
	}
}
