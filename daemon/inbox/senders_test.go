package inbox

import (
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/schema"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// The sender of a message is known as long as the inbox has it, also after a restart.
func TestTheInboxKnowsSenders(t *testing.T) {
	db := statedb.New(t, schema.Migrate)
	b, planner := openedInbox(t, db), "planner"
	var envs []*wire.Envelope
	for _, agent := range []string{planner, ""} {
		env := &wire.Envelope{V: 1, ID: wire.NewMessageID(), From: identity.ID{1}, To: identity.ID{2}, Kind: kinds.KindNotify, Payload: wire.Payload(`{"topic":"t"}`)}
		if err := b.AddMessage(t.Context(), env, agent, ""); err != nil {
			t.Fatal(err)
		}
		envs = append(envs, env)
	}
	expect := func(env *wire.Envelope, want bool) {
		t.Helper()
		if from, ok := b.FindSender(env.ID); ok != want || want && from != env.From {
			t.Errorf("%v, %t; want %t", from, ok, want)
		}
	}
	expect(envs[0], true)
	b = openedInbox(t, db)
	expect(envs[0], true)
	if _, err := b.List(t.Context(), &client.InboxParams{}, &planner, nil, 1<<20); err != nil {
		t.Fatal(err)
	}
	for _, env := range envs {
		if n, err := b.Acknowledge(t.Context(), &client.AckParams{IDs: []wire.MessageID{env.ID}}, new(planner), nil); len(n) != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	expect(envs[0], false)
	expect(envs[1], false)
	expect(&wire.Envelope{ID: wire.NewMessageID()}, false)
}

// Two peers may have a message of one id in an old file. The first is its sender until its own message goes.
func TestTheSecondSenderOfAnIDHidesNotTheFirst(t *testing.T) {
	b, planner, id := openedInbox(t, statedb.New(t, schema.Migrate)), "planner", wire.NewMessageID()
	first, second := identity.ID{1}, identity.ID{2}
	for _, from := range []identity.ID{first, second} {
		env := &wire.Envelope{V: 1, ID: id, From: from, To: identity.ID{3}, Kind: kinds.KindNotify, Payload: wire.Payload(`{"topic":"t"}`)}
		if err := b.AddMessage(t.Context(), env, planner, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.List(t.Context(), &client.InboxParams{}, &planner, nil, 1<<20); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		acked identity.ID
		known bool
	}{{second, true}, {first, false}} {
		if _, err := b.Acknowledge(t.Context(), &client.AckParams{IDs: []wire.MessageID{id}}, new(planner), []identity.ID{step.acked}); err != nil {
			t.Fatal(err)
		}
		if from, known := b.FindSender(id); known != step.known || known && from != first {
			t.Errorf("after the ack of %v: %v, %t", step.acked, from, known)
		}
	}
}
