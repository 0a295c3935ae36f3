package ui

import (
	"slices"

	"github.com/acpd/acpd/wire"
)

const shownPrefix = 8 // characters of an id that a person is shown, if no other one there begins so

// ShortID returns the beginning of an id, as it is in most lists.
func ShortID(id wire.MessageID) string { return id.String()[:shownPrefix] }

// ShortenIDs returns ids as a person sees them: the beginning that distinguishes each from the others, and
// the whole id without a terminal.
func (t *Terminal) ShortenIDs(ids []wire.MessageID) []string {
	shown := make([]string, len(ids))
	for i, id := range ids {
		shown[i] = id.String()
	}
	if !t.OutTTY {
		return shown
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(shown)))
	for i, id := range shown {
		at, _ := slices.BinarySearch(sorted, id)
		n := shownPrefix
		for _, near := range []int{at - 1, at + 1} {
			if near >= 0 && near < len(sorted) {
				n = max(n, countCommon(id, sorted[near])+1)
			}
		}
		if id[n-1] == '-' {
			n++
		}
		shown[i] = id[:n]
	}
	return shown
}

// countCommon returns with how many equal bytes two texts begin.
func countCommon(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
