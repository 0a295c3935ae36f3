package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
	"github.com/go-json-experiment/json"
)

// TestEveryKindIsDispatched: each kind of the table has a handler for the way it
// travels. What has none is refused as unknown_kind, also without a ref.
func TestEveryKindIsDispatched(t *testing.T) {
	desk := start(t, stateDir(t), "desk")
	from := identity.ID{0x1a, 0x70}
	desk.dial().must("trust", client.TrustParams{Peer: from.String(), Name: "laptop"}, nil)
	envelope := func(kind string, ref bool) *wire.Envelope {
		env := &wire.Envelope{V: wire.Version, ID: wire.NewMessageID(), From: from, To: desk.ID(), Kind: kind}
		if ref {
			env.Ref = new(wire.NewMessageID())
		}
		return env
	}
	sender, _ := desk.trust.FindPeer(from)
	came := func(env *wire.Envelope) *peer.Passing { // with any payload
		row, _ := kinds.FindKind(env.Kind)
		return &peer.Passing{Checked: kinds.Checked{Envelope: env, Spec: row}, Inbound: true, Sender: sender}
	}
	asExchange := func(env *wire.Envelope) (known bool) {
		_, err := desk.incoming.HandleExchange(t.Context(), came(env))
		return err == nil || kinds.AsError(err).Code != kinds.UnknownKind
	}
	asMessage := func(env *wire.Envelope) (known bool) {
		_, err := desk.incoming.HandleMessage(t.Context(), came(env))
		return err == nil || kinds.AsError(err).Code != kinds.UnknownKind
	}
	for _, k := range kinds.ListKinds() {
		if known := asExchange(envelope(k.Name, k.NeedsRef)); known != (k.Class == kinds.Exchange) {
			t.Errorf("%s as an exchange: dispatched %t", k.Name, known)
		}
		if k.Class == kinds.Exchange {
			continue // package peer refuses it as a message
		}
		if known := asMessage(envelope(k.Name, k.NeedsRef)); known != (k.Class == kinds.Message) {
			t.Errorf("%s as a message: dispatched %t", k.Name, known)
		}
	}
	for range 2 { // a repeat has the same answer
		if env := envelope("thirteenth", false); asExchange(env) || asMessage(env) {
			t.Error("an unknown kind was dispatched")
		}
	}
}

// What is refused before an agent hears of it, and what an agent that fails leads to.
func TestRefusedExchanges(t *testing.T) {
	t.Parallel()
	desk, planner, laptop := start(t, stateDir(t), "desk"), start(t, stateDir(t), "planner"), startConfigured(t, "laptop", "policy:\n  planner: {kinds: [query]}\n")
	befriend(t, desk, laptop)
	befriend(t, planner, laptop)
	refused := func(of *running, code kinds.Code, method string, params any) {
		t.Helper()
		if e := of.dial().refused(code, method, params); e.From != laptop.ID().String() {
			t.Errorf("%s: %+v", method, e)
		}
	}
	refused(planner, kinds.NotAuthorized, "ping", client.PingParams{To: "laptop"})
	refused(planner, kinds.NotAuthorized, "discover", client.DiscoverParams{To: "laptop"})
	refused(desk, kinds.NoAgent, "discover", client.DiscoverParams{To: "laptop/nobody"})

	laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) { r.RespondError(errors.New("out of paper")) })
	refused(desk, kinds.Internal, "query", client.QueryParams{To: "laptop", Payload: query("?")})

	laptop.session("claude")
	reviewer := kinds.AgentDetails{Name: "reviewer", Answers: kinds.AnswersNow}
	wantSessions := func(answer string, sessions ...string) {
		t.Helper()
		got := get[client.Answer](desk.dial(), "discover", client.DiscoverParams{To: "laptop", Fresh: true})
		c := parse[kinds.Capabilities](t, got.Payload)
		if !slices.Equal(c.Sessions, sessions) || !slices.Equal(c.Details, []kinds.AgentDetails{{Name: "claude", Answers: answer}, reviewer}) {
			t.Errorf("%q are sessions that wait for a turn; in detail %+v", c.Sessions, c.Details)
		}
	}
	wantSessions(kinds.AnswersTurn, "claude")
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	wantSessions(kinds.AnswersWakes)
}

// Whoever asks is told which agent has answered, unless policy keeps from it which agents there are. The
// daemon's own answers name none, nor does the answer to a question back, which the owner may give.
func TestAnswersNameTheirAgent(t *testing.T) {
	t.Parallel()
	desk, planner, laptop := start(t, stateDir(t), "desk"), start(t, stateDir(t), "planner"), startConfigured(t, "laptop", "policy:\n  planner: {kinds: [query, delegate]}\n")
	befriend(t, desk, laptop)
	befriend(t, planner, laptop)
	laptop.agent(client.AttachParams{Name: "reviewer", Kinds: []string{"query"}}, say(mainBranch))
	worker, _ := laptop.guestAgent(client.AttachParams{Name: "builder", Kinds: []string{"delegate"}}, say(accepted))
	ask := func(of *running, method, to string) string {
		t.Helper()
		params := any(client.QueryParams{To: to, Payload: query("?")})
		if method == "discover" {
			params = client.DiscoverParams{To: to}
		}
		got := get[client.Answer](of.dial(), method, params)
		return got.FromAgent
	}
	for _, c := range []struct {
		of               *running
		method, to, want string
	}{
		{desk, "query", "laptop", "reviewer"},
		{desk, "discover", "laptop", ""},
		{desk, "discover", "laptop/reviewer", ""},
		{planner, "query", "laptop", ""},
		{planner, "query", "laptop/reviewer", "reviewer"},
	} {
		if got := ask(c.of, c.method, c.to); got != c.want {
			t.Errorf("%s asks %s for a %s, and %q has answered: want %q", c.of.name, c.to, c.method, got, c.want)
		}
	}
	var given client.DelegateAnswer
	l := desk.dial()
	l.must("delegate", client.DelegateParams{To: "laptop", Payload: task1("")}, &given)
	if given.FromAgent != "builder" {
		t.Errorf("%q took the delegation", given.FromAgent)
	}
	other := get[client.DelegateAnswer](planner.dial(), "delegate", client.DelegateParams{To: "laptop", Payload: task1("")})
	if other.FromAgent != "" {
		t.Errorf("planner may not discover, and is told that %q took the delegation", other.FromAgent)
	}
	ends := asks(worker, given.ID, wire.NewMessageID(), which)
	q := l.question(given.ID, 0)
	l.must("answer", client.AnswerParams{Ref: q.ID, Payload: wire.Payload(mainBranch)}, nil)
	if end := await.Receive(t, "the answer", ends); end.err != nil || end.answer.FromAgent != "" {
		t.Errorf("the owner's answer is of %q: %v", end.answer.FromAgent, end.err)
	}
}

// What peers have piled up for an agent that reads slowly takes neither the room nor the
// turn of another one's query.
// holds: security.md#the-budget
func TestPeersTakeTurnsAtAnAgent(t *testing.T) {
	t.Parallel()
	hog, laptop := pair(t)
	hog2, desk := start(t, stateDir(t), "second"), start(t, stateDir(t), "planner")
	befriend(t, hog2, laptop)
	befriend(t, desk, laptop)
	agent := laptop.raw()
	agent.line(`{"jsonrpc":"2.0","id":1,"method":"attach","params":{"name":"reviewer","max_concurrent":64}}`)
	var asking sync.WaitGroup
	defer asking.Wait()
	said := make(chan error, 1)
	sent := make(map[*running][]wire.MessageID)
	ask := func(d *running, question string) {
		caller, id := d.dial(), wire.NewMessageID()
		sent[d] = append(sent[d], id)
		asking.Go(func() {
			err := caller.call("query", client.QueryParams{Head: client.Head{ID: id}, To: "laptop", Payload: query(question)}, nil)
			if d == desk {
				said <- err
			}
		})
	}
	waiting := func(d *running) (n int) {
		for _, id := range sent[d] {
			if !laptop.known.FindDeadline(id).IsZero() {
				n++
			}
		}
		return n
	}
	const each = 3 // as many as a peer may have in memory
	for range each {
		ask(hog, long(900<<10))
		ask(hog2, long(900<<10))
	}
	await.Until(t, "the agent's queue is full", func() bool { return waiting(hog)+waiting(hog2) >= 5 })
	ask(desk, "quick")
	await.Until(t, "the query is queued or refused", func() bool { return waiting(desk) == 1 || len(said) == 1 })
	for before := 0; len(said) == 0; before++ {
		if before > 3 {
			t.Fatalf("the query waits behind %d lines of others", before)
		}
		if !agent.Scan() {
			t.Fatal(agent.Err())
		}
		var asked struct {
			ID     int `json:"id"`
			Params struct {
				From identity.ID `json:"from"`
			} `json:"params"`
		}
		if err := json.Unmarshal(agent.Bytes(), &asked); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(agent, `{"jsonrpc":"2.0","id":%d,"result":{"summary":""}}`+"\n", asked.ID)
		if asked.Params.From == desk.ID() {
			break
		}
	}
	if err := await.Receive(t, "an answer", said); err != nil {
		t.Error(err)
	}
	agent.Close() // the others' queries end
}
