package discovery

import (
	"slices"
	"time"

	"github.com/acpd/acpd/identity"
)

// handleGoodbye acts on a goodbye: the hints of the peer, named by its id or if that is zero by
// its instance, go in a second unless they are repeated. It returns the instance to
// ask, or "".
func (t *Table) handleGoodbye(id identity.ID, instance string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[id]
	if id.IsZero() {
		for _, other := range t.peers {
			if len(other.hints) > 0 && other.instance == instance {
				p = other
				break
			}
		}
	}
	if p == nil || len(p.hints) == 0 || !p.bye.IsZero() {
		return ""
	}
	p.bye = time.Now().Add(byeTime)
	t.scheduleSweep(p.bye)
	return p.instance
}

// removeDeadHints removes the hints that have died. It returns the instances to ask before
// they die, and when there is more to do; zero: not before something is heard.
func (t *Table) removeDeadHints(now time.Time) (ask []string, next time.Time) {
	ask, changes, next := t.expireHints(now)
	t.reportChanges(changes...)
	return ask, next
}

func (t *Table) expireHints(now time.Time) (ask []string, changes []*Change, next time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next.IsZero() || now.Before(t.next) {
		return nil, nil, t.next
	}
	t.next = time.Time{}
	for id, p := range t.peers {
		if len(p.hints) == 0 {
			continue
		}
		before := len(p.hints)
		p.hints = slices.DeleteFunc(p.hints, func(h hint) bool {
			return !now.Before(h.seen.Add(hintTime)) || !p.bye.IsZero() && !now.Before(p.bye)
		})
		switch {
		case len(p.hints) == 0:
			changes = append(changes, t.removeHints(id, p))
			continue
		case len(p.hints) < before:
			changes = append(changes, &Change{Moved, p.newEntry(id)})
		}
		if !p.asked && !now.Before(p.seen.Add(staleTime)) {
			p.asked = true
			ask = append(ask, p.instance)
		}
		if !p.asked {
			t.scheduleSweep(p.seen.Add(staleTime))
		}
		if !p.bye.IsZero() {
			t.scheduleSweep(p.bye)
		}
		for _, h := range p.hints {
			t.scheduleSweep(h.seen.Add(hintTime))
		}
	}
	return ask, changes, t.next
}

// removeAllHints removes all hints, because nothing will notice when they die.
func (t *Table) removeAllHints() {
	var changes []*Change
	t.mu.Lock()
	for id, p := range t.peers {
		if len(p.hints) > 0 {
			changes = append(changes, t.removeHints(id, p))
		}
	}
	t.next = time.Time{}
	t.mu.Unlock()
	t.reportChanges(changes...)
}

// scheduleSweep makes sweep look again at a time, or earlier.
func (t *Table) scheduleSweep(at time.Time) {
	if t.next.IsZero() || at.Before(t.next) {
		t.next = at
	}
}
