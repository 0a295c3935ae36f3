package inbox

import (
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// The chain of a message is known as long as the inbox has it, also after a restart, and while
// what an agent took is kept.
func TestTheInboxKnowsChains(t *testing.T) {
	db := openDB(t)
	b, planner := openedInbox(t, db), "planner"
	var envs []*wire.Envelope
	for _, agent := range []string{planner, ""} {
		env := &wire.Envelope{V: 1, ID: wire.NewMessageID(), From: identity.ID{1}, To: identity.ID{2}, Kind: kinds.KindNotify, Payload: wire.Payload(`{"topic":"t"}`), Hops: 5}
		if err := b.AddMessage(t.Context(), env, agent); err != nil {
			t.Fatal(err)
		}
		envs = append(envs, env)
	}
	expect := func(env *wire.Envelope, want bool) {
		t.Helper()
		if chain, ok, err := b.FindChain(t.Context(), env.ID); err != nil || ok != want || want && chain.Hops != 5 {
			t.Errorf("%+v, %t, %v; want %t", chain, ok, err, want)
		}
	}
	expect(envs[0], true)
	b = openedInbox(t, db)
	expect(envs[0], true)
	if _, err := b.List(t.Context(), &client.InboxParams{}, &planner, nil, 1<<20); err != nil {
		t.Fatal(err)
	}
	for _, env := range envs {
		if n, err := b.AcknowledgeAsAgent(t.Context(), &client.AckParams{IDs: []wire.MessageID{env.ID}}, planner, nil); len(n) != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	expect(envs[0], false)
	expect(envs[1], true) // it was for any
	expect(&wire.Envelope{ID: wire.NewMessageID()}, false)
}
