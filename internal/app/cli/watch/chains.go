package watch

import (
	"strings"

	"github.com/acpd/acpd/client"
)

// waitingRow is an open call, and how deep it is below the call that led to it: 0 if no open call
// did, as far as its caller has reported.
type waitingRow struct {
	*client.TrafficEntry
	depth int
}

// joinChains puts each call below the one that led to it. The other calls keep their order,
// the oldest first. Without joined, all do.
//
// Which call led to which, client.FindOpenParents tells.
func joinChains(open []client.TrafficEntry, joined bool) []waitingRow {
	led := make(map[int][]int) // by the place of a call in open: those that it led to
	var parents, first []int
	if joined {
		parents = client.FindOpenParents(open)
	}
	for i := range open {
		if joined && parents[i] >= 0 {
			led[parents[i]] = append(led[parents[i]], i)
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

// findWho returns who waits.
func findWho(e *client.TrafficEntry) string { return formatParty(e, client.In, e.FromAgent) }

// findWhom returns for whom.
func findWhom(e *client.TrafficEntry) string { return formatParty(e, client.Out, e.Agent) }

// formatParty returns one of the two that a call is between: for calls of that direction its peer, else this daemon.
func formatParty(e *client.TrafficEntry, ofPeer client.MessageDirection, agent string) string {
	switch {
	case e.Direction == ofPeer:
		return joinAgent(formatPeerOf(e), agent)
	case agent != "":
		return joinAgent("here", agent)
	}
	return "a program here"
}

const deepest = 8 // levels of calls; deeper ones are drawn at this level

// indent returns what stands before a call that another one led to.
func (c waitingRow) indent() string {
	if c.depth == 0 {
		return ""
	}
	mark := "└ "
	if c.Guessed && c.Ref.IsZero() {
		mark = "┊ "
	}
	return strings.Repeat("  ", min(c.depth, deepest)-1) + mark
}
