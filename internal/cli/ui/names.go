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
// up to 10,000 forms: at least the 5,000 that were shown last, so that a name keeps its form while it comes again
// and again. The zero value is ready. It is for one goroutine.
type Names struct{ recent, older knownForms }

// knownForms has forms, both ways.
type knownForms struct {
	nameOf map[string]string      // by the form: the name that it stands for
	formOf map[nameInCells]string // by the name and its room: the form
}

// nameInCells is a name and the cells that it had.
type nameInCells struct {
	name  string
	cells int
}

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
	if cells < leastName {
		return CutMiddle(name, cells)
	}
	key := nameInCells{name, cells}
	form, known := n.recent.formOf[key]
	if known {
		return form
	}
	if form, known = n.older.formOf[key]; !known {
		if form, known = n.findForm(name, cells); !known {
			return form
		}
	}
	if n.recent.formOf == nil || len(n.recent.formOf) >= maxKnown/2 {
		n.older, n.recent = n.recent, knownForms{make(map[string]string), make(map[nameInCells]string)}
	}
	n.recent.nameOf[form], n.recent.formOf[key] = name, form
	return form
}

// findForm returns a form that stands for no other name that is known, and whether there is one.
func (n *Names) findForm(name string, cells int) (string, bool) {
	isFree := func(form string) bool {
		of, known := n.recent.nameOf[form]
		if !known {
			of, known = n.older.nameOf[form]
		}
		return !known || of == name
	}
	shortest := CutMiddle(name, cells)
	if isFree(shortest) {
		return shortest, true
	}
	for shift := range cells {
		for _, first := range []int{cells/2 - shift, cells/2 + shift} {
			if first < 0 || first >= cells {
				continue
			}
			if form := joinEnds(name, first, cells-1-first); isFree(form) {
				return form, true
			}
		}
	}
	for i := 2; i <= maxCut; i++ {
		number := numberMark + strconv.Itoa(i)
		if form := CutMiddle(name, cells-len(number)) + number; isFree(form) {
			return form, true
		}
	}
	return shortest, false
}
