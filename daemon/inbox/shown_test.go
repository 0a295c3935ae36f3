package inbox

import (
	"slices"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/wire"
)

// What is kept of what agents were shown is bounded, and pushes out nothing of the owner's.
func TestShowingsAreBounded(t *testing.T) {
	var s showings
	s.recordShown(owner, map[uint64]wire.MessageID{1: {}})
	name := func(i int) string { return string(rune('a'+i/1000)) + string(rune(0x100+i%1000)) }
	for i := range 10 * maxShowings {
		s.recordShown(name(i), map[uint64]wire.MessageID{1: {}})
	}
	if n := len(s.agents); n != maxShowings || s.findAcknowledged(name(0), &client.AckParams{UpTo: 1}) != nil {
		t.Errorf("%d agents are kept", n)
	}
	if len(s.findAcknowledged(owner, &client.AckParams{UpTo: 1})) != 1 {
		t.Error("what the owner was shown is forgotten")
	}
	for i := range uint64(10 * maxShown / 1000) {
		more := make(map[uint64]wire.MessageID)
		for k := range uint64(1000) {
			more[i*1000+k+1] = wire.MessageID{}
		}
		s.recordShown("planner", more)
	}
	got := s.findAcknowledged("planner", &client.AckParams{UpTo: 1 << 60})
	if len(got) != maxShown || !slices.IsSorted(got) || got[len(got)-1] != 10*maxShown {
		t.Errorf("%d kept", len(got))
	}
}
