package client

import (
	"slices"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Which open call led to which: what a question is about, and else what the caller has named. Agents, thread, hops
// and the name of a chain join nothing, as all calls here have them in common.
// holds: security.md#the-page-of-acpctl-web
func TestFindOpenParents(t *testing.T) {
	laptop, build := identity.ID{1}, identity.ID{2}
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	call := func(second byte, d MessageDirection, peer identity.ID, changes ...func(*TrafficEntry)) TrafficEntry {
		e := TrafficEntry{
			At: noon.Add(time.Duration(second) * time.Second), Direction: d, Peer: peer, FromAgent: "agent", Agent: "agent", Kind: kinds.KindQuery,
			ID: wire.MessageID{second}, Thread: "t", Hops: uint64(second), Chain: "4bf92f3577b34da6a3ce929d0e0e4736",
		}
		for _, change := range changes {
			change(&e)
		}
		return e
	}
	id := func(n byte) func(*TrafficEntry) { return func(e *TrafficEntry) { e.ID = wire.MessageID{n} } }
	from := func(n byte) func(*TrafficEntry) { return func(e *TrafficEntry) { e.Parent = wire.MessageID{n} } }
	about := func(n byte) func(*TrafficEntry) { return func(e *TrafficEntry) { e.Ref = wire.MessageID{n} } }
	delegate := func(e *TrafficEntry) { e.Kind = kinds.KindDelegate }
	for name, c := range map[string]struct {
		open []TrafficEntry
		want []int
	}{
		"nothing":                               {nil, []int{}},
		"nothing is named":                      {[]TrafficEntry{call(1, In, laptop), call(2, Out, build)}, []int{-1, -1}},
		"named":                                 {[]TrafficEntry{call(1, In, laptop), call(2, In, build), call(3, Out, build, from(1)), call(4, Out, build, from(1))}, []int{-1, -1, 0, 0}},
		"in whatever order they are":            {[]TrafficEntry{call(2, Out, build, from(1)), call(1, In, laptop)}, []int{1, -1}},
		"a delegation that was given":           {[]TrafficEntry{call(1, Out, laptop, delegate), call(2, Out, build, from(1))}, []int{-1, 0}},
		"a query that was sent is no parent":    {[]TrafficEntry{call(1, Out, laptop), call(2, Out, build, from(1))}, []int{-1, -1}},
		"it is over":                            {[]TrafficEntry{call(2, In, laptop), call(3, Out, build, from(1))}, []int{-1, -1}},
		"it came again later":                   {[]TrafficEntry{call(2, Out, build, from(1)), call(3, In, laptop, id(1))}, []int{-1, -1}},
		"it came twice":                         {[]TrafficEntry{call(1, In, laptop), call(2, In, laptop, id(1)), call(3, Out, build, from(1))}, []int{-1, -1, 0}},
		"a peer has no word in it":              {[]TrafficEntry{call(1, In, laptop), call(2, In, build, from(1))}, []int{-1, -1}},
		"through a peer, and back":              {[]TrafficEntry{call(1, Out, laptop), call(2, In, laptop), call(3, Out, build, from(2))}, []int{-1, -1, 1}},
		"itself":                                {[]TrafficEntry{call(1, In, laptop, id(2)), call(2, Out, build, from(2))}, []int{-1, 0}},
		"a question about a delegation":         {[]TrafficEntry{call(1, Out, build, delegate), call(2, In, build, about(1))}, []int{-1, 0}},
		"a question about one that came":        {[]TrafficEntry{call(1, In, laptop, delegate), call(2, In, build), call(3, Out, laptop, about(1), from(2))}, []int{-1, -1, 0}},
		"a question at once":                    {[]TrafficEntry{call(1, In, build, id(9), about(1)), call(1, Out, build, delegate)}, []int{1, -1}},
		"about one that is over, and named":     {[]TrafficEntry{call(1, In, build), call(2, Out, build, about(9), from(1))}, []int{-1, -1}},
		"about another peer's delegation":       {[]TrafficEntry{call(1, Out, build, delegate), call(2, In, laptop, about(1))}, []int{-1, -1}},
		"about a delegation of the same side":   {[]TrafficEntry{call(1, Out, build, delegate), call(2, Out, build, about(1))}, []int{-1, -1}},
		"about a query":                         {[]TrafficEntry{call(1, Out, build), call(2, In, build, about(1))}, []int{-1, -1}},
		"a delegation that names another one":   {[]TrafficEntry{call(1, Out, build, delegate), call(2, In, build, about(1), delegate)}, []int{-1, -1}},
		"of the question that it is asked with": {[]TrafficEntry{call(1, Out, build, delegate, from(9)), call(2, In, build, id(9), about(1))}, []int{-1, 0}},
	} {
		if got := FindOpenParents(c.open); !slices.Equal(got, c.want) {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
