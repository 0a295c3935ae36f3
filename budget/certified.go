package budget

import "github.com/acpd/acpd/identity"

// noteName notes the certified name under which a peer that the owner does not trust is accounted for, with all that it
// holds. A peer that has lost its certificate keeps the name that it had. Callers hold mu.
func (a *Account) noteName(who identity.ID) {
	name, counts := a.book.findCertifiedName(who)
	noted, known := a.names[who]
	if counts == known && (name == noted || name == "") {
		return
	}
	held := a.held[who]
	if known {
		delete(a.names, who)
		a.adjustByName(noted, -held)
	}
	if !counts {
		return
	}
	if a.names == nil {
		a.names, a.byName = make(map[identity.ID]string), make(map[string]int64)
	}
	if name == "" {
		name = who.String()
	}
	a.names[who] = name
	a.adjustByName(name, held)
}

// adjustHeldByName adds n to what the name of a holder has, if it has one. Callers hold mu, and have
// changed held.
func (a *Account) adjustHeldByName(who identity.ID, n int64) {
	name, ok := a.names[who]
	if !ok {
		return
	}
	a.adjustByName(name, n)
	if a.held[who] == 0 {
		delete(a.names, who)
	}
}

// adjustByName adds n to what a name has. Callers hold mu.
func (a *Account) adjustByName(name string, n int64) {
	if a.byName[name] += n; a.byName[name] == 0 {
		delete(a.byName, name)
	}
}

// findHolder returns what is held under a peer's own bound: what it holds, or what all keys with the name
// of its certificate hold. Callers hold mu.
func (a *Account) findHolder(who identity.ID) (held int64, certified bool) {
	var name string
	if a.held[who] > 0 {
		a.noteName(who)
		name, certified = a.names[who]
	} else {
		name, certified = a.book.findCertifiedName(who)
	}
	if !certified {
		return a.held[who], false
	}
	return a.byName[name], true
}

// findCertifiedName returns the name of a peer that the owner does not trust.
func (b *Book) findCertifiedName(who identity.ID) (string, bool) {
	if b.Certified == nil {
		return "", false
	}
	return b.Certified(who)
}
