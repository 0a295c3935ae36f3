package cli

import (
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// waitingRow is a call that is open, and how deep it stands below the call that led to it: 0 if none that is
// open did, as far as it can be told.
type waitingRow struct {
	*client.TrafficEntry
	depth int
}

// joinChains puts each call below the one that led to it; those that nothing led to stand in their order,
// the oldest first. Without joined, all do.
//
// The daemon does not tell which call led to which. A question about a delegation names it. Else a call
// follows from another one if whoever makes it is the one whom that waits for, if it began later, and if it
// has the same thread and one hop more, which a call takes from its parent. If that is so of several, it
// follows from none of them for certain, and stands by itself. The page of acpctl web joins them in the same
// way (internal/web/rows_chains.go).
func joinChains(open []client.TrafficEntry, joined bool) []waitingRow {
	led := make(map[int][]int) // by the place of a call in open: those that it led to
	var first []int
	for i := range open {
		parent := -1
		if joined {
			parent = findLeading(open[:i], &open[i])
		}
		if parent >= 0 {
			led[parent] = append(led[parent], i)
		} else {
			first = append(first, i)
		}
	}
	rows := make([]waitingRow, 0, len(open))
	var add func(i, depth int)
	add = func(i, depth int) {
		rows = append(rows, waitingRow{&open[i], depth})
		for _, next := range led[i] {
			add(next, depth+1)
		}
	}
	for _, i := range first {
		add(i, 0)
	}
	return rows
}

// findLeading returns the place of the call before e that led to it, -1 if that is none, or uncertain.
func findLeading(before []client.TrafficEntry, e *client.TrafficEntry) int {
	found := -1
	for i := range before {
		b := &before[i]
		if isAbout(e, b) {
			return i
		}
		if b.Hops+1 == e.Hops && b.Thread == e.Thread && findWhom(b).is(findWho(e)) {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}

// isAbout reports whether e is a question of the peer about the delegation b, or one about a delegation of
// the peer's.
func isAbout(e, b *client.TrafficEntry) bool {
	return !e.Ref.IsZero() && e.Ref == b.ID && b.Kind == kinds.KindDelegate && e.Peer == b.Peer && e.Direction != b.Direction
}

// party is one of the two that a call is between.
type party struct {
	peer  identity.ID // zero: this daemon
	name  string      // of the daemon, for a person
	agent string      // "": it is not known
}

// is reports whether two are the same agent for certain.
func (p party) is(q party) bool { return p.agent != "" && p.agent == q.agent && p.peer == q.peer }

// String returns the party as a person sees it.
func (p party) String() string { return joinAgent(p.name, p.agent) }

// findWho returns who waits.
func findWho(e *client.TrafficEntry) party {
	if e.Direction == client.In {
		return party{e.Peer, formatPeerOf(e), e.FromAgent}
	}
	return party{name: "here", agent: e.FromAgent}
}

// findWhom returns for whom.
func findWhom(e *client.TrafficEntry) party {
	if e.Direction == client.Out {
		return party{e.Peer, formatPeerOf(e), e.Agent}
	}
	return party{name: "here", agent: e.Agent}
}

const deepest = 8 // calls that stand below each other: those below stand as deep

// indent returns what stands before a call that another one led to.
func indent(depth int) string {
	if depth == 0 {
		return ""
	}
	return strings.Repeat("  ", min(depth, deepest)-1) + "└ "
}
