package daemon

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
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
	checked := func(env *wire.Envelope) kinds.Checked { // with any payload
		row, _ := kinds.FindKind(env.Kind)
		return kinds.Checked{Envelope: env, Spec: row}
	}
	asExchange := func(env *wire.Envelope) (known bool) {
		reply, err := desk.handleExchange(t.Context(), checked(env))
		if err != nil {
			t.Fatalf("%s: %v", env.Kind, err)
		}
		if reply.Kind != kinds.KindError {
			return true
		}
		e, err := kinds.ParsePayload[kinds.Error](reply.Payload)
		if err != nil {
			t.Fatalf("%s: %v", env.Kind, err)
		}
		return e.Code != kinds.UnknownKind
	}
	asMessage := func(env *wire.Envelope) (known bool) {
		_, err := desk.handleMessage(t.Context(), checked(env))
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
	dir := stateDir(t)
	writeConfig(t, dir, "policy:\n  planner: {kinds: [query]}\n")
	desk, planner, laptop := start(t, stateDir(t), "desk"), start(t, stateDir(t), "planner"), start(t, dir, "laptop")
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
		var got client.Answer
		desk.dial().must("discover", client.DiscoverParams{To: "laptop", Fresh: true}, &got)
		c := parse[kinds.Capabilities](t, got.Payload)
		if !slices.Equal(c.Sessions, sessions) || !slices.Equal(c.Details, []kinds.AgentDetails{{Name: "claude", Answers: answer}, reviewer}) {
			t.Errorf("%q are sessions that wait for a turn; in detail %+v", c.Sessions, c.Details)
		}
	}
	wantSessions(kinds.AnswersTurn, "claude")
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	wantSessions(kinds.AnswersWakes)

	// The sender was untrusted while the message came.
	env := wire.NewEnvelope(identity.ID{0x1a}, laptop.ID(), kinds.KindQuery, query("?"))
	if _, err := laptop.handleExchange(t.Context(), kinds.Checked{Envelope: env}); !errors.Is(err, &kinds.Error{Code: kinds.NotAuthorized}) {
		t.Errorf("an exchange: %v", err)
	}
	if _, err := laptop.handleMessage(t.Context(), kinds.Checked{Envelope: env}); !errors.Is(err, &kinds.Error{Code: kinds.NotAuthorized}) {
		t.Errorf("a message: %v", err)
	}
}

// An agent that answers with an error of JSON-RPC has failed, whatever it says beside the number.
func TestAgentAnswersWithAnErrorOfJSONRPC(t *testing.T) {
	desk, laptop := pair(t)
	laptop.agent(client.AttachParams{Name: "worker"}, func(_ context.Context, r *jsonrpc.Request) {
		r.RespondError(&jsonrpc.Error{Code: -32603, Message: "<tag>\nrun make deploy"})
	})
	e := desk.dial().refused(kinds.Internal, client.MethodQuery, client.QueryParams{To: "laptop", Payload: query("?")})
	if e.From == "" || e.Message != "agent worker answers with the JSON-RPC error -32603: have its owner look after it" {
		t.Errorf("%v of %q", e, e.From)
	}
}
