package remote

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
)

// run runs a Gateway and its engine until the test ends.
func run(t testing.TB, c *Gateway) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	running.Go(func() { c.Engine.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// openStore opens a store with the tables of this package until the test ends.
func openStore(t testing.TB) *store.DB {
	t.Helper()
	return statedb.New(t, func(ctx context.Context, db *store.DB) error { return db.Migrate(ctx, "carrier", schema) })
}

// quiet is the account of log lines of a log that nobody reads.
func quiet() *budget.Log { return new(budget.Book).OpenLog(slog.New(slog.DiscardHandler)) }

// A host that takes its time keeps nothing from the others, and an agent that has
// much to say nothing from the other agents. What a host says when it refuses is kept
// within bounds.
func TestNobodyWaitsForSomebodyElse(t *testing.T) {
	t.Parallel()
	slow, quick := identity.ID{1}, identity.ID{2}
	var (
		mu      sync.Mutex
		away    = true
		arrived []string
	)
	end := make(chan struct{})
	send := func(_ context.Context, p *outgoingMessage) (int, []byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if away {
			return 0, nil, kinds.Errorf(kinds.Unreachable, "away")
		}
		if p.host == slow {
			mu.Unlock()
			<-end
			mu.Lock()
		}
		arrived = append(arrived, p.id)
		return http.StatusConflict, []byte(strings.Repeat("no", maxRefusal)), nil
	}
	q, err := openMessageQueue(t.Context(), openStore(t), slog.New(slog.DiscardHandler), quiet(), send)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []outgoingMessage{
		{id: "s1", host: slow, agent: "planner"}, {id: "p1", host: quick, agent: "planner"}, {id: "p2", host: quick, agent: "planner"},
		{id: "p3", host: quick, agent: "planner"}, {id: "r1", host: quick, agent: "reviewer"},
	} {
		p.answer, p.body = []byte("{}"), []byte("{}")
		if err := q.sendOrQueue(t.Context(), &p, httptest.NewRecorder()); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	away = false
	mu.Unlock()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() { defer close(ended); q.run(ctx) }()
	await.Until(t, "what is for the quick one", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(arrived) == 4
	})
	if r, p := slices.Index(arrived, "r1"), slices.Index(arrived, "p3"); r > p {
		t.Errorf("one agent's had to wait for all of another's: %v", arrived)
	}
	await.Until(t, "the refusal", func() bool {
		message, err := q.findAgentMessage(t.Context(), "p3", "planner")
		return err == nil && strings.Contains(string(message), `"refusal":{"status":409,"error":"refused","message":"the host refused the message: look`)
	})
	close(end)
	await.Until(t, "all", func() bool {
		mu.Lock()
		defer mu.Unlock()
		q.mu.Lock()
		defer q.mu.Unlock()
		return len(arrived) == 5 && len(q.senders) == 0 && q.count == 0 && q.bytes == 0
	})
	stop()
	await.Receive(t, "the end", ended)
}

// Nothing is left for a host that is trusted no more, and all of it for the others.
func TestWhatWaitsIsForgottenWithItsHost(t *testing.T) {
	t.Parallel()
	gone, other := identity.ID{1}, identity.ID{2}
	send := func(_ context.Context, p *outgoingMessage) (int, []byte, error) {
		if p.id == "refused" {
			return http.StatusForbidden, []byte("{}"), nil
		}
		return 0, nil, kinds.Errorf(kinds.Unreachable, "away")
	}
	db := openStore(t)
	q, err := openMessageQueue(t.Context(), db, slog.New(slog.DiscardHandler), quiet(), send)
	if err != nil {
		t.Fatal(err)
	}
	all := []outgoingMessage{
		{id: "refused", host: gone, agent: "planner"}, {id: "p1", host: gone, agent: "planner"}, {id: "p2", host: gone, agent: "planner"},
		{id: "r1", host: gone, agent: "reviewer"}, {id: "o1", host: other, agent: "planner"},
	}
	for _, p := range all {
		p.answer, p.body = []byte("{}"), []byte("{}")
		if err := q.storeMessage(t.Context(), senderKey{p.host, p.agent}, &p); err != nil {
			t.Fatal(err)
		}
	}
	if sent, err := q.deliverFirstMessage(t.Context(), senderKey{gone, "planner"}); !sent || err != nil {
		t.Fatal(sent, err)
	}
	if err := q.deleteHostMessages(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		message, err := q.findAgentMessage(t.Context(), p.id, p.agent)
		if err != nil || (message != nil) != (p.host == other) {
			t.Errorf("%s: %s %v", p.id, message, err)
		}
	}
	again, err := openMessageQueue(t.Context(), db, q.log, quiet(), send)
	if err != nil || q.count != 1 || q.bytes != 2 || len(q.senders) != 1 || again.count != 1 || again.bytes != 2 || len(again.senders) != 1 {
		t.Errorf("%d of %d bytes wait in %d lines, after a restart %d of %d in %d: %v", q.count, q.bytes, len(q.senders), again.count, again.bytes, len(again.senders), err)
	}
}

// TestRefusalCode: the code of a refusal is read whatever else the refusal holds.
func TestRefusalCode(t *testing.T) {
	for refusal, want := range map[string]kinds.Code{
		`{"error":"overloaded","message":"m"}`:          kinds.Overloaded,
		`{"error":"overloaded","message":{"text":"m"}}`: kinds.Overloaded,
		`{"message":"m"}`:                               "",
		`overloaded`:                                    "",
	} {
		if got := readRefusalCode([]byte(refusal)); got != want {
			t.Errorf("%s: %q, want %q", refusal, got, want)
		}
	}
}
