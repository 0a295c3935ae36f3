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
	"github.com/acpd/acpd/peer"
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
