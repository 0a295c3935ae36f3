package peer

import "sync"

// strangerLimit bounds how many strangers of a link are served at a time, in all and of each
// source.
type strangerLimit struct {
	all, perSource int

	// Of strangers that may turn out to be peers there are more: a fleet that starts again comes all
	// at once, and many of it from behind one NAT.
	ofFleet, ofFleetPerSource int

	isFleet func() bool // nil: they never do

	mu   sync.Mutex // guards what follows
	in   int
	from map[source]int
}

// tryAddStranger adds a stranger and reports true if there is room. The
// caller then calls removeStranger in the end.
func (g *strangerLimit) tryAddStranger(p source) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	all, perSource := g.all, g.perSource
	if g.isFleet != nil && g.isFleet() {
		all, perSource = g.ofFleet, g.ofFleetPerSource
	}
	if g.in >= all || g.from[p] >= perSource {
		return false
	}
	if g.from == nil {
		g.from = make(map[source]int)
	}
	g.in++
	g.from[p]++
	return true
}

func (g *strangerLimit) removeStranger(p source) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.in--
	if g.from[p]--; g.from[p] == 0 {
		delete(g.from, p)
	}
}
