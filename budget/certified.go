package budget

import "github.com/acpd/acpd/identity"

// noteName notes under which name a peer that counts by a certificate is counted, until it holds
// nothing. Callers hold mu.
func (a *Account) noteName(who identity.ID) {
	name, ok := a.book.findCertifiedName(who)
	if !ok {
		return
	}
	if a.names == nil {
		a.names, a.byName = make(map[identity.ID]string), make(map[string]int64)
	}
	a.names[who] = name
}

// adjustHeldByName adds n to what the name of a holder has, if it has one. Callers hold mu, and have
// changed held.
func (a *Account) adjustHeldByName(who identity.ID, n int64) {
	name, ok := a.names[who]
	if !ok {
		return
	}
	if a.byName[name] += n; a.byName[name] == 0 {
		delete(a.byName, name)
	}
	if a.held[who] == 0 {
		delete(a.names, who)
	}
}

// findHolder returns what counts for a peer's own bound: what it holds, or what all keys with the name
// of its certificate hold. Callers hold mu.
func (a *Account) findHolder(who identity.ID) (held int64, certified bool) {
	name, certified := a.names[who]
	if !certified && a.held[who] == 0 {
		name, certified = a.book.findCertifiedName(who)
	}
	if !certified {
		return a.held[who], false
	}
	return a.byName[name], true
}

// findCertifiedName returns the name of a peer that counts by a certificate alone.
func (b *Book) findCertifiedName(who identity.ID) (string, bool) {
	if b.Certified == nil {
		return "", false
	}
	return b.Certified(who)
}
