package peer

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
)

// roundPair returns the rounds of two nodes with each other, the smaller id's first.
func roundPair() (small, large *pathRounds) {
	a, b := identity.ID{1}, identity.ID{2}
	return newPathRounds(a, b), newPathRounds(b, a)
}

// dueIn expects the next own round after a time; less than zero: none.
func (r *pathRounds) dueIn(t *testing.T, want time.Duration) {
	t.Helper()
	wait, due, _ := r.nextRound()
	if due != (want >= 0) || due && wait != want {
		t.Errorf("the next round: %v, %v; expected after %v", wait, due, want)
	}
}

// TestPausesBetweenRounds has rounds of the smaller id fail: 30 s, 2 min, 10 min, then hourly.
func TestPausesBetweenRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := roundPair()
		for _, pause := range []time.Duration{0, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, time.Hour} {
			r.dueIn(t, pause)
			if pause > 0 && r.beginRound(t.Context()) != nil {
				t.Fatal("a round begins too early")
			}
			time.Sleep(pause)
			p := r.beginRound(t.Context())
			if p == nil {
				t.Fatalf("no round begins after %v", pause)
			}
			if r.dueIn(t, -1); r.beginRound(t.Context()) != nil {
				t.Fatal("two rounds at a time")
			}
			time.Sleep(punchTime)
			r.endRound(p)
			if p.ctx.Err() == nil {
				t.Error("the round goes on")
			}
		}
		r.noteAddrs()
		r.dueIn(t, roundGap+roundGapSlack-punchTime)
		time.Sleep(time.Minute)
		r.dueIn(t, 0)
	})
}

// TestLargerIDBeginsForNews has the side that repeats no rounds begin one when it has other
// addresses.
func TestLargerIDBeginsForNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		small, large := roundPair()
		large.dueIn(t, -1)
		large.noteAddrs()
		large.dueIn(t, 0)
		p := large.beginRound(t.Context())
		accepted := small.acceptRound(t.Context(), p.number)
		if accepted == nil || accepted.own {
			t.Fatal("the round is not accepted")
		}
		large.endRound(p)
		large.dueIn(t, -1)
		small.endRound(accepted)
		small.dueIn(t, roundGap+roundGapSlack)
	})
}

// TestRoundsThatCross has both sides begin one: that of the smaller id counts.
func TestRoundsThatCross(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		small, large := roundPair()
		large.noteAddrs()
		s, l := small.beginRound(t.Context()), large.beginRound(t.Context())
		if small.isOwn(l.number) || large.isOwn(s.number) || !small.isOwn(s.number) || !large.isOwn(l.number) {
			t.Fatalf("the numbers %d and %d do not say whose they are", s.number, l.number)
		}
		if small.acceptRound(t.Context(), l.number) != nil {
			t.Error("both rounds count")
		}
		accepted := large.acceptRound(t.Context(), s.number)
		if accepted == nil || l.ctx.Err() == nil {
			t.Fatal("neither round counts")
		}
		large.endRound(l) // it is over already
		if large.under != accepted {
			t.Error("the end of the round that does not count ends the other")
		}
		small.takeAnswer(s.number, []string{"a"})
		small.takeAnswer(s.number, []string{"b"})
		small.takeAnswer(s.number+2, []string{"c"})
		if got := <-s.answer; !slices.Equal(got, []string{"a"}) || len(s.answer) > 0 {
			t.Errorf("the answer is %v", got)
		}
		if again := large.acceptRound(t.Context(), s.number+2); again != nil {
			t.Error("a second round of the peer begins at once")
		}
	})
}

// TestRoundsOfDirectPaths has direct paths come and go: one that is found dead before it has lasted
// counts as a failed round.
func TestRoundsOfDirectPaths(t *testing.T) {
	for name, c := range map[string]struct {
		lived time.Duration
		dead  bool
		want  time.Duration
	}{
		"dead soon":  {time.Minute, true, 30 * time.Second},
		"ended soon": {time.Minute, false, 0},
		"dead later": {steadyDirect, true, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := roundPair()
			p := r.beginRound(t.Context())
			r.noteDirect()
			if p.ctx.Err() == nil {
				t.Errorf("%s: the round goes on", name)
			}
			r.endRound(p)
			r.dueIn(t, -1)
			_, _, changed := r.nextRound()
			time.Sleep(c.lived)
			r.noteDirect() // a second connection
			r.noteNoDirect(c.dead)
			select {
			case <-changed:
			default:
				t.Errorf("%s: nobody hears of it", name)
			}
			r.dueIn(t, c.want)
			if r.noteNoDirect(true); r.failures > 1 {
				t.Errorf("%s: counted twice", name)
			}
		})
	}
}

// watchingLink is a link whose server tells at which address it sees the node.
type watchingLink struct {
	*relayLink
	seen atomic.Pointer[netip.Addr]
}

func (l *watchingLink) PublicAddr() netip.Addr {
	if ip := l.seen.Load(); ip != nil {
		return *ip
	}
	return netip.Addr{}
}

// watchRelay makes the links of a lab's nodes, which do not run yet, such links.
func watchRelay(l *natLab) (links [2]*watchingLink) {
	for i, s := range []*side{l.a, l.b} {
		e := s.links.all[0]
		links[i] = &watchingLink{relayLink: e.link.(*relayLink)}
		e.link = links[i]
	}
	return links
}

// TestRoundForNewAddress has two nodes without a STUN server behind NATs that keep ports. They
// stay relayed, until the relay tells each at which address it sees it.
func TestRoundForNewAddress(t *testing.T) {
	for _, later := range []bool{false, true} { // which of the two hears it later
		synctest.Test(t, func(t *testing.T) {
			l := newNATLab(t, natPair{portKeeping, portKeeping}, latency, func(c *Config) { c.STUN = nil })
			links := watchRelay(l)
			l.run()
			l.a.ask(l.b, "first")
			time.Sleep(20 * time.Minute) // the next round would be in an hour
			if l.a.path(l.b) != ViaRelay {
				t.Fatalf("the path is %q", l.a.path(l.b))
			}
			tell := func(i int, s *side, ip string) {
				addr := netip.MustParseAddr(ip)
				links[i].seen.Store(&addr)
				l.relay.interrupt(s.ID())
			}
			tell(0, l.a, "127.0.0.1") // none that a peer could use
			tell(1, l.b, "10.2.0.1")
			synctest.Wait()
			if a, b := l.a.listLocalPaths(), l.b.listLocalPaths(); len(a) != 1 || len(b) != 1 {
				t.Errorf("the addresses are %v and %v", a, b)
			}
			for i, first := range []bool{true, false} {
				if first != later {
					tell(0, l.a, "198.51.100.1")
				} else {
					tell(1, l.b, "198.51.100.2")
				}
				if i == 0 {
					time.Sleep(5 * time.Minute)
				}
			}
			l.awaitPath(Direct, roundGap+5*time.Second)
		})
	}
}
