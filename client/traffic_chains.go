package client

import (
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// FindOpenParents returns for each of some open calls (TrafficAnswer.Open) the place of the one that led to
// it, or -1. For a question about a delegation that is the delegation, for any other call from here
// the one that its caller has named ([TrafficEntry.Parent]). Other values that peers choose, such as a thread or the
// name of a chain, decide nothing. No call led to itself, nor to one that led to it, over however many others.
func FindOpenParents(open []TrafficEntry) []int {
	calls, came, given := make(map[callKey]int), make(map[wire.MessageID]int), make(map[wire.MessageID]int)
	for i := range open {
		e := &open[i]
		calls[callKey{e.Direction, e.Peer, e.Kind, e.ID}] = i
		if _, again := came[e.ID]; e.Direction == In && !again {
			came[e.ID] = i
		} else if e.Direction == Out && e.Kind == kinds.KindDelegate {
			given[e.ID] = i
		}
	}
	parents := make([]int, len(open))
	for i := range open {
		e := &open[i]
		at, known := -1, false
		if e.Kind == kinds.KindQuery && !e.Ref.IsZero() {
			at, known = calls[callKey{turn(e.Direction), e.Peer, kinds.KindDelegate, e.Ref}]
		} else if e.Direction == Out && !e.Parent.IsZero() {
			if at, known = came[e.Parent]; !known {
				at, known = given[e.Parent]
			}
		}
		if parents[i] = -1; known && beganBefore(&open[at], e) {
			parents[i] = at
		}
	}
	return parents
}

// callKey is what tells a call from all others: peers choose ids, and may choose that of another's.
type callKey struct {
	direction MessageDirection
	peer      identity.ID
	kind      string
	id        wire.MessageID
}

func turn(d MessageDirection) MessageDirection {
	if d == Out {
		return In
	}
	return Out
}

// beganBefore reports whether a call can have led to another one by the times of both: an id may have come
// again. Of a delegation from before a restart the time is known to the millisecond.
func beganBefore(parent, e *TrafficEntry) bool {
	return parent.At.Before(e.At) || parent.Kind == kinds.KindDelegate && parent.At.Equal(e.At)
}
