package ui

import (
	"strconv"
	"strings"
)

const (
	leastName  = 5      // cells of a name that is told from all others
	maxCut     = 999    // names that are told from each other by a number alone
	maxKnown   = 10_000 // forms that are known
	numberMark = "~"    // before such a number; no name of a peer has it
)

// Names cuts names of peers, so that no two of them look the same, whatever names peers have chosen. It remembers
// the last 10,000 forms. The zero value is ready. It is for one goroutine.
type Names struct{ of map[string]string } // by what was shown: the name that it stands for

// Cut returns NAME, or NAME/AGENT, in at most so many cells of a terminal, each of the two cut in its middle, so
// that its beginning and its end are seen. The name has at least half of the room. If it would look as another
// one did, another part of it is cut out; if that does not help, a number stands behind it (~2). Names are
// told from each other in 10 cells or more.
func (n *Names) Cut(text string, cells int) string {
	name, agent, named := strings.Cut(text, "/")
	if !named {
		return n.cutName(name, cells)
	}
	agent = "/" + agent
	room := max(cells-CountCells(agent), cells-cells/2)
	name = n.cutName(name, room)
	return name + CutMiddle(agent, cells-CountCells(name))
}

// cutName returns a name in at most so many cells, in a form that stands for no other name.
func (n *Names) cutName(name string, cells int) string {
	if n.of == nil || len(n.of) >= maxKnown {
		n.of = make(map[string]string)
	}
	take := func(form string) bool {
		if of, known := n.of[form]; known && of != name {
			return false
		}
		n.of[form] = name
		return true
	}
	shortest := CutMiddle(name, cells)
	if take(shortest) || cells < leastName {
		return shortest
	}
	for shift := range cells {
		for _, first := range []int{cells/2 - shift, cells/2 + shift} {
			if form := joinEnds(name, first, cells-1-first); first >= 0 && first < cells && take(form) {
				return form
			}
		}
	}
	for i := 2; i <= maxCut; i++ {
		number := numberMark + strconv.Itoa(i)
		if form := CutMiddle(name, cells-len(number)) + number; take(form) {
			return form
		}
	}
	return shortest
}
