package transfer

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
)

// loops counts the goroutines of couriers, of all sides.
func loops() int {
	all := make([]byte, 4<<20)
	all = all[:runtime.Stack(all, true)]
	return strings.Count(string(all), "transfer.(*Mailer).deliverLoop(") + strings.Count(string(all), "transfer.(*Mailer).reportLoop(")
}

func (s *side) hasCourier(to *side) bool {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	return s.ledger.queues[to.key.ID()] != nil
}

func (s *side) untrust(other *side) {
	s.t.Helper()
	if err := s.trust.Untrust(other.key.ID()); err != nil {
		s.t.Fatal(err)
	}
	s.node.Disconnect(other.key.ID())
}

// TestUnbindEndsItsCouriers: what takes mail to a peer ends with the last binding, when
// the peer knows what became of its own mail, and begins again with the next.
// holds: security.md#what-untrust-does-and-what-it-does-not-undo
func TestUnbindEndsItsCouriers(t *testing.T) {
	desk, laptop := bound(t)
	file, _ := desk.question("hello")
	desk.becomes(file, Delivered)
	await.Until(t, "the arrival is in the ledger", func() bool {
		a, err := laptop.storedArrival(file)
		return err == nil && a != nil && a.state == stored
	})
	await.Until(t, "there are four loops while both are bound", func() bool { return loops() == 4 })
	for _, of := range []struct {
		*side
		agent string
	}{{desk, "reviewer"}, {laptop, "planner"}} {
		if _, err := of.Unbind(t.Context(), "demo", of.agent); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "all loops end", func() bool { return loops() == 0 && !desk.hasCourier(laptop) && !laptop.hasCourier(desk) })

	// What is still to be told is told, by loops that end then.
	if err := os.Remove(filepath.Join(laptop.inbox("reviewer"), file)); err != nil {
		t.Fatal(err)
	}
	laptop.eventuallyReported()
	await.Until(t, "the loops end again", func() bool { return loops() == 0 && !laptop.hasCourier(desk) })

	desk.bind("demo", "reviewer", laptop)
	laptop.bind("demo", "planner", desk)
	again, written := desk.question("again")
	laptop.holds("reviewer", again, written)
	desk.becomes(again, Delivered)
}

// TestUntrustEndsItsCouriers: a peer that is trusted no more has no loops here, however
// much waits for it; all goes on when it is trusted again.
// holds: security.md#what-untrust-does-and-what-it-does-not-undo
func TestUntrustEndsItsCouriers(t *testing.T) {
	desk, laptop := bound(t)
	first, _ := desk.question("hello")
	desk.becomes(first, Delivered)
	await.Until(t, "it has arrived", func() bool { return len(laptop.arrivedFiles()) == 1 })
	laptop.untrust(desk)
	if err := os.Remove(filepath.Join(laptop.inbox("reviewer"), first)); err != nil {
		t.Fatal(err)
	}
	desk.untrust(laptop)
	waits, written := desk.question("later")
	await.Until(t, "it waits, and says why", func() bool {
		q := desk.queued(waits)
		return q.State == Waiting && strings.Contains(q.Reason, "is not trusted here: acpctl trust "+laptop.key.ID().String()+" to go on")
	})
	await.Until(t, "all loops end", func() bool { return loops() == 0 })
	for range 3 { // rounds of Run, in which they would begin again
		for _, s := range []*side{desk, laptop} {
			s.ledger.markAllDirty()
			await.Until(t, "Run has taken it", func() bool {
				s.ledger.mu.Lock()
				defer s.ledger.mu.Unlock()
				return len(s.ledger.changed) == 0 && len(s.ledger.dirty) == 0
			})
		}
	}
	if n := loops(); n != 0 {
		t.Errorf("%d loops begin again", n)
	}
	for _, s := range [][2]*side{{desk, laptop}, {laptop, desk}} {
		if _, err := s[0].trust.Trust(identity.Peer{ID: s[1].key.ID(), Name: s[1].name, Addrs: []string{s[1].addr}}); err != nil {
			t.Fatal(err)
		}
	}
	laptop.holds("reviewer", waits, written)
	desk.becomes(waits, Delivered)
	await.Until(t, "what became of the first is told", func() bool { _, there := desk.files("reviewer")[first]; return !there })
}
