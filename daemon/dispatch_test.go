package daemon

import (
	"testing"

	"github.com/acpd/acpd/client"
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
