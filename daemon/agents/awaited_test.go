package agents

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
)

func TestAwaitedAgentsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		for i := range maxAwaited + 2 {
			s.awaited.add(desk, fmt.Sprint("agent-", i))
			time.Sleep(time.Second) // on the virtual clock
		}
		s.awaited.add(laptop, "agent-0")
		if n := len(s.awaited.byPeer[desk]); n != maxAwaited {
			t.Errorf("%d names of a peer", n)
		}
		takes("agent-1", 0)
		takes("agent-0", 1)
		takes("agent-2", 1)
		s.ForgetPeer(desk)
		takes("agent-3", 0)
		s.awaited.add(desk, "reviewer")
		time.Sleep(awaitedFor) // on the virtual clock
		takes("reviewer", 0)
		if n := len(s.awaited.byPeer); n != 0 {
			t.Errorf("%d peers are remembered that await nobody", n)
		}
	})
}
