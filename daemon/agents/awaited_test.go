package agents

import (
	"fmt"
	"testing"

	"github.com/acpd/acpd/identity"
)

func TestAwaitedAgentsAreBounded(t *testing.T) {
	desk, laptop := identity.ID{1}, identity.ID{2}
	var s Service
	takes := func(name string, want int) {
		t.Helper()
		if got := s.awaited.take(name); len(got) != want {
			t.Errorf("%d peers await %q, want %d", len(got), name, want)
		}
	}
	s.awaited.add(desk, "reviewer")
	s.awaited.add(laptop, "")
	takes("planner", 1) // any agent is one
	takes("reviewer", 1)
	takes("reviewer", 0)
	for i := range maxAwaited + 1 {
		s.awaited.add(desk, fmt.Sprint("agent-", i))
	}
	s.awaited.add(laptop, "agent-0")
	takes(fmt.Sprint("agent-", maxAwaited), 0)
	takes("agent-0", 2)
	s.ForgetPeer(desk)
	takes("agent-3", 0)
	if n := len(s.awaited.byPeer); n != 0 {
		t.Errorf("%d peers are remembered that await nobody", n)
	}
}
