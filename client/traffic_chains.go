package client

import (
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// FindParents returns for each of some open calls (TrafficAnswer.Open) the place of the one that led to it, -1
// if none of them did, or if it cannot be told. No call led to itself, nor to one that led to it, over however
// many others.
//
// The daemon does not tell which call led to which. A question about a delegation names it. Else a call
// follows from another one if whoever makes it is the one whom that waits for, if it began later, and if it
// has the same thread and one hop more, which a call takes from its parent. If that is so of several, it
// follows from none of them for certain, and has no parent. Peers choose threads and hops: so a parent says
// no more than who waits for whom.
func FindParents(open []TrafficEntry) []int {
	delegations, called := make(map[delegationKey]int), make(map[chainLink][]int)
	for i := range open {
		e := &open[i]
		if key := (delegationKey{e.Direction, e.Peer, e.ID}); e.Kind == kinds.KindDelegate {
			delegations[key] = i
		}
		if e.Agent != "" {
			link := linkTo(e)
			called[link] = append(called[link], i)
		}
	}
	parents := make([]int, len(open))
	for i := range open {
		e := &open[i]
		parents[i] = -1
		if at, there := delegations[delegationKey{turn(e.Direction), e.Peer, e.Ref}]; there && asksAbout(e, &open[at]) {
			parents[i] = at
		} else if e.Hops > 0 && e.FromAgent != "" {
			parents[i] = findEarlier(open, called[linkFrom(e)], e)
		}
	}
	return parents
}

// asksAbout reports whether e is a question of the peer about the delegation d, or one about a delegation of
// the peer's. It is none if it began before.
func asksAbout(e, d *TrafficEntry) bool {
	return e.Kind == kinds.KindQuery && e.Ref == d.ID && d.Kind == kinds.KindDelegate && e.Peer == d.Peer && e.Direction != d.Direction && !e.At.Before(d.At)
}

func turn(d MessageDirection) MessageDirection {
	if d == Out {
		return In
	}
	return Out
}

// delegationKey is what tells a delegation from all others: peers choose ids, and may choose that of another's.
type delegationKey struct {
	direction MessageDirection
	peer      identity.ID
	id        wire.MessageID
}

// chainLink is what a call and the one that led to it have in common.
type chainLink struct {
	peer   identity.ID // of the agent; zero: it belongs to this daemon
	agent  string
	thread string
	hops   uint64 // of the one that follows
}

// linkTo returns the link of a call to those that it may have led to.
func linkTo(e *TrafficEntry) chainLink {
	link := chainLink{agent: e.Agent, thread: e.Thread, hops: e.Hops + 1}
	if e.Direction == Out {
		link.peer = e.Peer
	}
	return link
}

// linkFrom returns the link of a call to those that may have led to it.
func linkFrom(e *TrafficEntry) chainLink {
	link := chainLink{agent: e.FromAgent, thread: e.Thread, hops: e.Hops}
	if e.Direction == In {
		link.peer = e.Peer
	}
	return link
}

// findEarlier returns which one of some calls began before e, -1 if that is none, or several.
func findEarlier(open []TrafficEntry, some []int, e *TrafficEntry) int {
	found := -1
	for _, i := range some {
		if !open[i].At.Before(e.At) {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = i
	}
	return found
}
