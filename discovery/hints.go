package discovery

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/acpd/acpd/identity"
)

const (
	hintTime  = 90 * time.Second // how long a hint lives after it was last heard (protocol, section 8)
	staleTime = 71 * time.Second // when an instance is asked in person: 95 % of lifetime (RFC 6762, section 5.2)
	byeTime   = time.Second      // how long a goodbye may be contradicted (RFC 6762, section 10.1)
)

// hint is an address and the source that said it.
type hint struct {
	addr netip.AddrPort
	by   netip.Addr
	seen time.Time
}

// sighting is one announcement of a peer as one source made it.
type sighting struct {
	id       identity.ID
	instance string
	claim    string
	addrs    []netip.AddrPort // best first
	by       netip.Addr
}

// addHints enters a sighting, if there is room.
func (t *Table) addHints(s sighting) {
	trusted := t.trusted(s.id)
	for {
		change, rival := t.tryAddHints(s, trusted)
		if rival.IsZero() {
			t.reportChanges(change)
			return
		}
		t.reportChanges(t.removeHintsUnlessTrusted(rival, t.trusted(rival)))
	}
}

// tryAddHints enters a sighting. If another peer would have to make room, it
// does nothing and returns that peer.
func (t *Table) tryAddHints(s sighting, trusted bool) (change *Change, rival identity.ID) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[s.id]
	if p == nil {
		p = &tableEntry{}
	}
	event := Moved
	if len(p.hints) == 0 {
		event = Discovered
		if p.trusted = trusted; p.isStranger() {
			refused, rival := t.findStrangerToReplace(s.by)
			if refused || !rival.IsZero() {
				return nil, rival
			}
		}
	}
	t.peers[s.id] = p
	old := p.hints
	p.hints = mergeHints(old, s, now)
	// Under its usual name it can be asked whatever others say about it.
	if p.instance != instanceName(s.id) {
		p.instance = s.instance
	}
	p.claim, p.by, p.trusted = s.claim, s.by, trusted
	p.seen, p.bye, p.asked = now, time.Time{}, false
	t.scheduleSweep(now.Add(staleTime))
	if event == Moved && haveSameAddrs(old, p.hints) {
		return nil, identity.ID{}
	}
	return &Change{event, p.newEntry(s.id)}, identity.ID{}
}

// findStrangerToReplace decides whether there is room for a stranger announced by a source: at once,
// or if it replaces a rival, the stranger not heard for longest of the source that holds
// the most. It refuses if the newcomer's own source holds the most.
func (t *Table) findStrangerToReplace(by netip.Addr) (refused bool, rival identity.ID) {
	strangers := 0
	held := make(map[netip.Addr]int)
	for _, p := range t.peers {
		if p.isStranger() && len(p.hints) > 0 {
			strangers++
			held[p.by]++
		}
	}
	if strangers < maxStrangers {
		return false, rival
	}
	most := slices.Max(slices.Collect(maps.Values(held)))
	if held[by] >= most {
		return true, rival
	}
	var oldest time.Time
	for id, p := range t.peers {
		if p.isStranger() && len(p.hints) > 0 && held[p.by] == most && (oldest.IsZero() || p.seen.Before(oldest)) {
			rival, oldest = id, p.seen
		}
	}
	return false, rival
}

// removeHintsUnlessTrusted removes the hints of a stranger, or marks it as trusted now.
func (t *Table) removeHintsUnlessTrusted(id identity.ID, trusted bool) *Change {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[id]
	if p == nil || len(p.hints) == 0 {
		return nil
	}
	if p.trusted = trusted; trusted {
		return nil
	}
	return t.removeHints(id, p)
}

// removeHints removes the hints of a peer.
func (t *Table) removeHints(id identity.ID, p *tableEntry) *Change {
	p.hints, p.bye, p.seen = nil, time.Time{}, time.Time{}
	change := &Change{Lost, p.newEntry(id)}
	p.claim, p.instance = "", ""
	t.removeIfEmpty(id, p)
	return change
}

// reportChanges passes the changes that are not nil to the caller of NewTable.
func (t *Table) reportChanges(changes ...*Change) {
	for _, c := range changes {
		if c != nil {
			t.changed(*c)
		}
	}
}

// isStranger reports whether only the network vouches for the peer.
func (p *tableEntry) isStranger() bool { return !p.trusted && len(p.worked)+len(p.static) == 0 }

// mergeHints returns the hints after a sighting: its addresses first, then those that
// other sources gave. It replaces earlier hints of the same source. If there
// are too many, the source with the most loses its last, so that no single source
// can displace the hints of others.
func mergeHints(old []hint, s sighting, now time.Time) []hint {
	hints := make([]hint, 0, len(s.addrs)+len(old))
	for _, a := range s.addrs {
		hints = append(hints, hint{a, s.by, now})
	}
	for _, h := range old {
		if h.by != s.by && !slices.Contains(s.addrs, h.addr) {
			hints = append(hints, h)
		}
	}
	for len(hints) > maxAddrs {
		count := make(map[netip.Addr]int)
		for _, h := range hints {
			count[h.by]++
		}
		last := 0
		for i, h := range hints {
			if count[h.by] >= count[hints[last].by] {
				last = i
			}
		}
		hints = slices.Delete(hints, last, last+1)
	}
	return hints
}

// haveSameAddrs reports whether the addresses are the same in any order.
func haveSameAddrs(a, b []hint) bool {
	missing := func(of, in []hint) bool {
		return slices.ContainsFunc(of, func(h hint) bool {
			return !slices.ContainsFunc(in, func(o hint) bool { return o.addr == h.addr })
		})
	}
	return !missing(a, b) && !missing(b, a)
}
