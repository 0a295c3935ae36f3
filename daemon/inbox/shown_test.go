package inbox

import (
	"math"
	"slices"
	"testing"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/schema"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// The agents whose showings are kept are bounded, and push out nothing of the owner's.
func TestShowingsAreBounded(t *testing.T) {
	var s showings
	s.recordShown(owner, map[uint64]wire.MessageID{1: {}}, nil)
	name := func(i int) string { return string(rune('a'+i/1000)) + string(rune(0x100+i%1000)) }
	for i := range 10 * registry.MaxAgents {
		s.recordShown(name(i), map[uint64]wire.MessageID{1: {}}, nil)
	}
	if n := len(s.agents); n != registry.MaxAgents || s.findAcknowledged(name(0), &client.AckParams{UpTo: 1}) != nil {
		t.Errorf("%d agents are kept", n)
	}
	if len(s.findAcknowledged(owner, &client.AckParams{UpTo: 1})) != 1 {
		t.Error("what the owner was shown is forgotten")
	}
}

// What was shown and is held can be acknowledged, however much else was shown that has left the
// inbox.
func TestShownMessagesThatLeftAreForgotten(t *testing.T) {
	db := statedb.New(t, schema.Migrate)
	hold(t, db, 1, identity.ID{1}, kinds.KindNotify, "")
	b := openedInbox(t, db)
	for _, of := range []*string{new("planner"), nil} {
		list, err := b.List(t.Context(), &client.InboxParams{}, of, nil, 1<<20)
		if err != nil || len(list.Messages) != 1 {
			t.Fatalf("%+v: %v", list, err)
		}
		gone := make(map[uint64]wire.MessageID)
		for n := range uint64(budget.Inbox.All + budget.Results.All) {
			gone[list.Messages[0].Seq+1+n] = wire.NewMessageID()
		}
		b.recordShown(of, gone)
		if kept := b.shown.findAcknowledged(nameReader(of), &client.AckParams{UpTo: math.MaxUint64}); !slices.Equal(kept, []uint64{list.Messages[0].Seq}) {
			t.Errorf("%d are kept", len(kept))
		}
	}
	if acked, err := b.Acknowledge(t.Context(), &client.AckParams{UpTo: 1}, nil, nil); len(acked) != 1 || err != nil {
		t.Errorf("%d are acknowledged: %v", len(acked), err)
	}
}
