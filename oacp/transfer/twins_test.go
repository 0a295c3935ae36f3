package transfer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/wire"
)

// TestHostedTwice: an agent that is hosted on both machines is known on each, as long as both
// say so; what a peer makes up is bounded, and counts only where it has agents.
func TestHostedTwice(t *testing.T) {
	desk, laptop := desks(t)
	for _, s := range []*side{desk, laptop} {
		s.makeAgent("demo", "helper")
		s.makeAgent("other", "helper")
	}
	laptop.start()
	laptop.bind("demo", "planner", desk)
	desk.start()
	desk.bind("demo", "reviewer", laptop)
	desk.node.Connect(laptop.key.ID())
	for _, s := range [][2]*side{{desk, laptop}, {laptop, desk}} {
		await.Until(t, s[0].name+" knows", func() bool {
			return slices.Equal(s[0].ListTwinAgents("demo"), []Twin{{"demo", "helper", s[1].key.ID()}})
		})
	}
	if got := desk.ListTwinAgents("other"); got != nil {
		t.Errorf("in another project: %v", got)
	}
	for n := range 10 * maxAnnounced {
		reply := laptop.says(desk, &wire.MailRequest{Op: wire.MailPresence, Project: "demo", Agent: fmt.Sprintf("made-up-%d", n), Status: "busy"}, "")
		if reply.Result != wire.MailOK {
			t.Fatalf("%+v", reply)
		}
	}
	desk.ledger.mu.Lock()
	if n := len(desk.ledger.peerAgents[laptop.key.ID()]); n != maxAnnounced {
		t.Errorf("%d agents are kept", n)
	}
	desk.ledger.mu.Unlock()
	desk.bind("demo", "helper", laptop)
	if got := desk.ListTwinAgents(""); got != nil {
		t.Errorf("a bound agent: %v", got)
	}
	laptop.stop()
	await.Until(t, "the desk forgets", func() bool {
		desk.ledger.mu.Lock()
		defer desk.ledger.mu.Unlock()
		return len(desk.ledger.peerAgents) == 0
	})
}
