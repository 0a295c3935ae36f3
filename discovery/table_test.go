package discovery

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
)

var (
	planner  = identity.ID{0x01}
	reviewer = identity.ID{0x02}
	desk     = netip.MustParseAddr("10.0.0.1")
	laptop   = netip.MustParseAddr("10.0.0.2")
)

// recorder is a table and what it told.
type recorder struct {
	*Table
	trusted map[identity.ID]bool
	told    []string
}

func newRecorder(trusted ...identity.ID) *recorder {
	r := &recorder{trusted: make(map[identity.ID]bool)}
	for _, id := range trusted {
		r.trusted[id] = true
	}
	r.Table = NewTable(func(id identity.ID) bool { return r.trusted[id] }, func(c Change) {
		r.told = append(r.told, fmt.Sprint(c.Event, " ", c.Entry.ID.Label()[:2]))
	})
	return r
}

// since returns what was told since the last call.
func (r *recorder) since() []string {
	told := r.told
	r.told = nil
	return told
}

func (r *recorder) expect(t *testing.T, what ...string) {
	t.Helper()
	if told := r.since(); !slices.Equal(told, what) {
		t.Errorf("told %q, want %q", told, what)
	}
}

func sight(id identity.ID, by netip.Addr, addrs ...string) sighting {
	s := sighting{id: id, instance: instanceName(id), claim: "claimed", by: by}
	for _, a := range addrs {
		s.addrs = append(s.addrs, netip.MustParseAddrPort(a))
	}
	return s
}

// listPeerAddrs returns the addresses of a peer as TakeDialAddrs does before it has returned any.
func (t *Table) listPeerAddrs(id identity.ID) (addrs []string) {
	for _, e := range t.Entries() {
		for _, a := range e.Addrs {
			if e.ID == id && !slices.Contains(addrs, a.HostPort) {
				addrs = append(addrs, a.HostPort)
			}
		}
	}
	return addrs
}

func (r *recorder) addrs(t *testing.T, id identity.ID, want ...string) {
	t.Helper()
	if got := r.listPeerAddrs(id); !slices.Equal(got, want) {
		t.Errorf("addresses %q, want %q", got, want)
	}
}

func TestHintsDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		r.addHints(sight(planner, laptop, "10.0.0.2:7117"))
		r.expect(t, "discovered 01")
		time.Sleep(60 * time.Second)
		r.addHints(sight(planner, laptop, "10.0.0.2:7117"))
		if _, next := r.removeDeadHints(time.Now()); !next.Equal(time.Now().Add(staleTime - 60*time.Second)) {
			t.Errorf("next look in %v", time.Until(next))
		}
		time.Sleep(staleTime)
		ask, next := r.removeDeadHints(time.Now())
		if !slices.Equal(ask, []string{instanceName(planner)}) || time.Until(next) != hintTime-staleTime {
			t.Errorf("ask %q, next look in %v", ask, time.Until(next))
		}
		time.Sleep(hintTime - staleTime - 1)
		if ask, _ := r.removeDeadHints(time.Now()); len(ask) > 0 {
			t.Errorf("asked twice: %q", ask)
		}
		r.expect(t)
		time.Sleep(time.Nanosecond)
		if _, next := r.removeDeadHints(time.Now()); !next.IsZero() {
			t.Error("an empty table has something to do")
		}
		r.expect(t, "lost 01")
		if e := r.Entries(); len(e) > 0 {
			t.Errorf("left over: %+v", e)
		}
	})
}

func TestGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		r.SetAddrs(planner, Static, "planner.example:7117")
		r.addHints(sight(planner, laptop, "10.0.0.2:7117"))
		r.addHints(sight(reviewer, desk, "10.0.0.1:7117"))
		r.since()

		// One that is contradicted in time.
		if got := r.handleGoodbye(reviewer, ""); got != instanceName(reviewer) {
			t.Errorf("ask %q", got)
		}
		if got := r.handleGoodbye(reviewer, ""); got != "" {
			t.Errorf("asked again for the same goodbye: %q", got)
		}
		time.Sleep(byeTime - 1)
		r.removeDeadHints(time.Now())
		r.addHints(sight(reviewer, desk, "10.0.0.1:7117"))
		time.Sleep(byeTime)
		r.removeDeadHints(time.Now())
		r.expect(t)

		// One that is not, by the name alone; the configured address stays.
		r.handleGoodbye(identity.ID{}, instanceName(planner))
		time.Sleep(byeTime)
		r.removeDeadHints(time.Now())
		r.expect(t, "lost 01")
		r.addrs(t, planner, "planner.example:7117")
		for _, e := range r.Entries() {
			if e.ID == planner && !e.LastSeen.IsZero() {
				t.Error("a lost peer was seen")
			}
		}
		if got := r.handleGoodbye(planner, instanceName(planner)) + r.handleGoodbye(identity.ID{9}, "") + r.handleGoodbye(identity.ID{}, "x"); got != "" {
			t.Errorf("ask %q who is not there", got)
		}
	})
}

func TestAddrsBestFirst(t *testing.T) {
	r := newRecorder()
	r.SetAddrs(planner, Static, "planner.example:7117", "10.0.0.2:7117")
	r.addHints(sight(planner, laptop, "10.0.0.2:7117", "10.0.0.3:7117"))
	r.SetAddrs(planner, Worked, "10.0.0.3:7117")
	r.addrs(t, planner, "10.0.0.3:7117", "planner.example:7117", "10.0.0.2:7117")
	if e := r.Entries(); len(e) != 1 || len(e[0].Addrs) != 5 || e[0].Claim != "claimed" || e[0].LastSeen.IsZero() {
		t.Errorf("entries %+v", e)
	}
	r.SetAddrs(planner, Worked)
	r.SetAddrs(planner, Static)
	r.addrs(t, planner, "10.0.0.2:7117", "10.0.0.3:7117")
	r.addrs(t, reviewer)
	r.SetAddrs(reviewer, Static, "1.example:1", "2.example:2", "3.example:3", "4.example:4", "5.example:5", "6.example:6", "7.example:7", "8.example:8", "9.example:9")
	if n := len(r.listPeerAddrs(reviewer)); n != maxAddrs {
		t.Errorf("%d configured addresses", n)
	}
	r.SetAddrs(reviewer, Static)
	if n := len(r.Entries()); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}

// A source replaces what it said itself; another adds to it, and cannot push it out.
func TestSourcesOfHints(t *testing.T) {
	r := newRecorder()
	r.addHints(sight(planner, laptop, "10.0.0.2:7117", "10.1.0.2:7117"))
	r.addHints(sight(planner, laptop, "10.0.0.2:7117", "10.2.0.2:7117"))
	r.addrs(t, planner, "10.0.0.2:7117", "10.2.0.2:7117")
	r.addHints(sight(planner, laptop, "10.2.0.2:7117", "10.0.0.2:7117"))
	r.expect(t, "discovered 01", "moved 01")
	var forged []string
	for i := range maxAddrs {
		forged = append(forged, fmt.Sprintf("10.0.0.%d:1", 66+i))
	}
	r.addHints(sight(planner, desk, forged...))
	r.addrs(t, planner, append(forged[:6:6], "10.2.0.2:7117", "10.0.0.2:7117")...)
}

func TestStrangersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(planner)
		flood := func(kind byte, by netip.Addr, n int) {
			for i := range n {
				r.addHints(sight(identity.ID{kind, byte(i >> 8), byte(i), 1}, by, "10.0.0.9:1"))
				time.Sleep(time.Microsecond)
			}
		}
		spoofer := netip.MustParseAddr("10.0.0.9")
		r.addHints(sight(planner, laptop, "10.0.0.2:7117"))
		r.SetAddrs(identity.ID{3}, Static, "third.example:7117")
		r.addHints(sight(identity.ID{3}, laptop, "10.0.0.2:7118"))
		flood(0xa0, spoofer, 10000)
		if n := len(r.Entries()); n != maxStrangers+2 {
			t.Errorf("%d entries", n)
		}
		r.since()

		// A stranger from elsewhere takes the place of the flood's oldest.
		r.addHints(sight(reviewer, desk, "10.0.0.1:7117"))
		r.expect(t, "lost a0", "discovered 02")
		flood(0xa1, spoofer, 10000)
		r.expect(t)

		// Whom a person has trusted meanwhile is not displaced.
		oldest := identity.ID{0xa0, 0, 1, 1}
		r.trusted[oldest] = true
		r.addHints(sight(identity.ID{4}, laptop, "10.0.0.2:7119"))
		if len(r.listPeerAddrs(oldest)) == 0 || len(r.listPeerAddrs(planner)) == 0 || len(r.listPeerAddrs(identity.ID{3})) != 2 || len(r.listPeerAddrs(identity.ID{4})) == 0 {
			t.Error("a trusted or configured peer was displaced, or a stranger not admitted")
		}

		time.Sleep(hintTime)
		r.removeDeadHints(time.Now())
		if e := r.Entries(); len(e) != 1 || e[0].ID != (identity.ID{3}) {
			t.Errorf("%d entries after their time", len(e))
		}
	})
}

// What only the network names is dialled once in 5 s; what worked or is configured
// as often as anybody likes.
func TestHintsAreDialledRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(planner, reviewer)
		r.SetAddrs(planner, Static, "planner.example:7117", "10.0.0.2:7117")
		r.addHints(sight(planner, laptop, "10.0.0.2:7117", "10.0.0.3:7117"))
		dial := func(id identity.ID, want ...string) {
			t.Helper()
			if got := r.TakeDialAddrs(id); !slices.Equal(got, want) {
				t.Errorf("to dial %q, want %q", got, want)
			}
		}
		dial(planner, "planner.example:7117", "10.0.0.2:7117", "10.0.0.3:7117")
		dial(planner, "planner.example:7117", "10.0.0.2:7117")
		r.addHints(sight(planner, desk, "10.0.0.3:7117", "10.0.0.4:7117"))
		r.addHints(sight(reviewer, desk, "10.0.0.3:7117"))
		dial(planner, "planner.example:7117", "10.0.0.2:7117", "10.0.0.4:7117")
		dial(reviewer)
		time.Sleep(dialPause - time.Nanosecond)
		dial(reviewer)
		time.Sleep(time.Nanosecond)
		dial(reviewer, "10.0.0.3:7117")
		dial(planner, "planner.example:7117", "10.0.0.2:7117", "10.0.0.4:7117")
		if n := len(r.tried); n != 2 {
			t.Errorf("%d addresses are remembered, want 2", n)
		}
	})
}
