package client

import (
	"slices"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Which open call led to which: by what a question names, and else by the agents, thread, hops and times of both;
// and none if that may be several.
func TestFindParents(t *testing.T) {
	laptop, build := identity.ID{1}, identity.ID{2}
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	call := func(second byte, d MessageDirection, peer identity.ID, from, to string, hops uint64) TrafficEntry {
		return TrafficEntry{At: noon.Add(time.Duration(second) * time.Second), Direction: d, Peer: peer, FromAgent: from, Agent: to, Kind: kinds.KindQuery, ID: wire.MessageID{second}, Hops: hops}
	}
	in := func(second byte, from, to string) TrafficEntry { return call(second, In, laptop, from, to, 0) }
	out := func(second byte, from, to string) TrafficEntry { return call(second, Out, build, from, to, 1) } // what in led to
	with := func(e TrafficEntry, changes ...func(*TrafficEntry)) TrafficEntry {
		for _, change := range changes {
			change(&e)
		}
		return e
	}
	hops := func(n uint64) func(*TrafficEntry) { return func(e *TrafficEntry) { e.Hops = n } }
	thread := func(name string) func(*TrafficEntry) { return func(e *TrafficEntry) { e.Thread = name } }
	id := func(n byte) func(*TrafficEntry) { return func(e *TrafficEntry) { e.ID = wire.MessageID{n} } }
	about := func(n byte) func(*TrafficEntry) { return func(e *TrafficEntry) { e.Ref = wire.MessageID{n} } }
	delegate := func(e *TrafficEntry) { e.Kind = kinds.KindDelegate }
	given := with(out(1, "planner", ""), delegate, hops(0))
	for name, c := range map[string]struct {
		open []TrafficEntry
		want []int
	}{
		"nothing":                                 {nil, []int{}},
		"a chain of three, and another call":      {[]TrafficEntry{in(1, "planner", "reviewer"), in(2, "tester", "writer"), out(3, "reviewer", "builder"), call(4, In, build, "builder", "signer", 2)}, []int{-1, -1, 0, 2}},
		"through a peer, and back":                {[]TrafficEntry{call(1, Out, laptop, "planner", "reviewer", 0), call(2, In, laptop, "reviewer", "tester", 1), call(3, Out, build, "tester", "clerk", 2)}, []int{-1, 0, 1}},
		"two that follow from one":                {[]TrafficEntry{in(1, "planner", "reviewer"), out(2, "reviewer", "builder"), out(3, "reviewer", "tester")}, []int{-1, 0, 0}},
		"in whatever order they are":              {[]TrafficEntry{out(2, "reviewer", "builder"), in(1, "planner", "reviewer")}, []int{1, -1}},
		"it began before":                         {[]TrafficEntry{out(1, "reviewer", "builder"), in(2, "planner", "reviewer")}, []int{-1, -1}},
		"it began at the same time":               {[]TrafficEntry{in(1, "planner", "reviewer"), out(1, "reviewer", "builder")}, []int{-1, -1}},
		"of two one began later":                  {[]TrafficEntry{in(1, "planner", "reviewer"), out(2, "reviewer", "builder"), in(3, "tester", "reviewer")}, []int{-1, 0, -1}},
		"of the agent's own accord":               {[]TrafficEntry{in(1, "planner", "reviewer"), with(out(2, "reviewer", "builder"), hops(0))}, []int{-1, -1}},
		"hops that do not fit":                    {[]TrafficEntry{in(1, "planner", "reviewer"), with(out(2, "reviewer", "builder"), hops(3))}, []int{-1, -1}},
		"hops that end where numbers do":          {[]TrafficEntry{with(in(1, "planner", "reviewer"), hops(1<<64-1)), with(out(2, "reviewer", "builder"), hops(0))}, []int{-1, -1}},
		"hops tell which of two":                  {[]TrafficEntry{in(1, "planner", "reviewer"), with(in(2, "tester", "reviewer"), hops(2)), with(out(3, "reviewer", "builder"), hops(3))}, []int{-1, -1, 1}},
		"another thread":                          {[]TrafficEntry{with(in(1, "planner", "reviewer"), thread("a")), out(2, "reviewer", "builder")}, []int{-1, -1}},
		"the thread tells which of two":           {[]TrafficEntry{with(in(1, "planner", "reviewer"), thread("a")), with(in(2, "tester", "reviewer"), thread("b")), with(out(3, "reviewer", "builder"), thread("b"))}, []int{-1, -1, 1}},
		"either of two":                           {[]TrafficEntry{in(1, "planner", "reviewer"), in(2, "tester", "reviewer"), out(3, "reviewer", "builder")}, []int{-1, -1, -1}},
		"another agent":                           {[]TrafficEntry{in(1, "planner", "reviewer"), out(2, "writer", "builder")}, []int{-1, -1}},
		"agents of one name at two peers":         {[]TrafficEntry{call(1, Out, build, "planner", "reviewer", 0), call(2, In, laptop, "reviewer", "writer", 1)}, []int{-1, -1}},
		"an agent of that name here":              {[]TrafficEntry{in(1, "planner", "reviewer"), call(2, In, laptop, "reviewer", "writer", 1)}, []int{-1, -1}},
		"nobody is named":                         {[]TrafficEntry{in(1, "", ""), out(2, "", "")}, []int{-1, -1}},
		"a question about a delegation":           {[]TrafficEntry{given, call(2, In, build, "tester", "planner", 7), with(call(3, In, build, "tester", "planner", 7), about(1), thread("t"))}, []int{-1, -1, 0}},
		"a question about one that came":          {[]TrafficEntry{with(in(1, "planner", "reviewer"), delegate), with(call(2, Out, laptop, "reviewer", "planner", 1), about(1))}, []int{-1, 0}},
		"a question at once":                      {[]TrafficEntry{with(call(1, In, build, "", "", 1), id(9), about(1)), given}, []int{1, -1}},
		"a question before its delegation":        {[]TrafficEntry{with(in(1, "planner", "reviewer"), about(2), hops(1)), with(call(2, Out, laptop, "reviewer", "planner", 2), delegate)}, []int{-1, 0}},
		"about another peer's delegation":         {[]TrafficEntry{given, with(in(2, "tester", "planner"), about(1))}, []int{-1, -1}},
		"about a delegation of the same side":     {[]TrafficEntry{given, with(call(2, Out, build, "writer", "tester", 1), about(1))}, []int{-1, -1}},
		"about a query":                           {[]TrafficEntry{out(1, "planner", ""), with(call(2, In, build, "tester", "planner", 2), about(1))}, []int{-1, -1}},
		"a delegation that names another one":     {[]TrafficEntry{given, with(call(2, In, build, "tester", "planner", 2), about(1), delegate)}, []int{-1, -1}},
		"about one that is over, and it followed": {[]TrafficEntry{call(1, Out, build, "planner", "tester", 0), with(call(2, In, build, "tester", "planner", 1), about(9))}, []int{-1, 0}},
	} {
		if got := FindParents(c.open); !slices.Equal(got, c.want) {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
