package delegation

import (
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
)

// OpenCount is how many delegations are not over.
type OpenCount struct {
	Given, Taken int
	Questions    int // of those given, whose agent waits for an answer
}

// CountOpen counts the delegations that are not over.
func (ts *Table) CountOpen() (n OpenCount) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.table {
		switch {
		case t.isOverNow():
		case t.Direction == client.Taken:
			n.Taken++
		default:
			n.Given++
			if q := t.findUnanswered(); q != nil && q.isOpen() {
				n.Questions++
			}
		}
	}
	return n
}

// HasOpenWith reports whether a delegation is not over that a peer was given, or gave.
func (ts *Table) HasOpenWith(peer identity.ID) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for key, t := range ts.table {
		if key.peer == peer && !t.isOverNow() {
			return true
		}
	}
	return false
}
