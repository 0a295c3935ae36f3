package discovery

import (
	"maps"
	"net/netip"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
)

// Bounds of the table (protocol, section 8).
const (
	maxStrangers = 256
	maxAddrs     = 8 // of one peer and source
)

// dialPause lies between two dials of an address that only the network names (protocol,
// section 8), because any machine can announce any address.
const dialPause = 5 * time.Second

// Source says where an address comes from.
type Source string

// The sources, best first.
const (
	Worked Source = "worked" // it worked before
	Static Source = "static" // a person configured it
	MDNS   Source = "mdns"   // somebody on the network said so
)

// Addr is an address of a peer.
type Addr struct {
	HostPort string // with the zone where it is link-local
	Source   Source
}

// Entry holds what is known of one peer.
type Entry struct {
	ID       identity.ID
	Claim    string    // what it calls itself on the network; "": nothing
	Addrs    []Addr    // best first; one may be there from several sources
	LastSeen time.Time // when it was last heard on the network; zero: not there now
}

// Event says what happened to a peer on the network.
type Event string

// The events.
const (
	Discovered Event = "discovered" // it was not there before
	Moved      Event = "moved"      // its addresses on the network are others
	Lost       Event = "lost"       // it left or was not heard for 90 s
)

// Change is an event and the peer as it is after it.
type Change struct {
	Event Event
	Entry Entry
}

// Table holds the addresses of peers. It is safe for concurrent use.
//
// Hints from the network fill it within bounds: 256 strangers, 8 addresses each,
// shared fairly between their sources. Trusted peers and those with a
// configured address are not among the 256 and are never displaced.
type Table struct {
	trusted func(identity.ID) bool
	changed func(Change)

	mu    sync.Mutex // guards the rest
	peers map[identity.ID]*tableEntry
	next  time.Time            // when sweep has something to do; zero: never
	tried map[string]time.Time // hints that were given out to be dialled, for dialPause
}

// tableEntry holds the facts about one peer. Without hints, it is not on the
// network; without any address, it is not in the table.
type tableEntry struct {
	worked, static []Addr

	hints    []hint // last heard first
	claim    string
	instance string // its name in DNS, by which it is asked
	by       netip.Addr
	seen     time.Time
	bye      time.Time // when the hints go, unless they are repeated; zero: no goodbye
	asked    bool      // since seen, for fear that it is gone
	trusted  bool      // as last asked
}

// NewTable returns an empty table. trusted reports whether strangers must not displace
// an id; changed is called with what happens on the network. Neither is called with a lock
// held; changed is called by [RunMDNS] in its own goroutine, one call at a time, and
// must not block.
func NewTable(trusted func(identity.ID) bool, changed func(Change)) *Table {
	return &Table{trusted: trusted, changed: changed, peers: make(map[identity.ID]*tableEntry), tried: make(map[string]time.Time)}
}

// SetAddrs replaces the addresses that a peer has from source, [Static] or [Worked], by
// the first 8 of addrs; none removes them. Hints are not touched.
func (t *Table) SetAddrs(id identity.ID, source Source, addrs ...string) {
	set := make([]Addr, 0, min(len(addrs), maxAddrs))
	for _, a := range addrs[:min(len(addrs), maxAddrs)] {
		set = append(set, Addr{a, source})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[id]
	if p == nil {
		p = &tableEntry{}
		t.peers[id] = p
	}
	switch source {
	case Static:
		p.static = set
	case Worked:
		p.worked = set
	default:
		panic("discovery: Set takes static and worked addresses")
	}
	t.removeIfEmpty(id, p)
}

// TakeDialAddrs returns the addresses of a peer, as host:port without repetition, for a
// caller that dials them all now. First come those that worked, then those that are
// configured, then those that the network names, last heard first. An address that only
// the network names is left out for 5 s after it was returned. So is one that only the sources in
// without name. Package peer dials them in this order, after the one where the
// peer last proved its key.
func (t *Table) TakeDialAddrs(id identity.ID, without ...Source) []string {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.tried, func(_ string, at time.Time) bool { return now.Sub(at) >= dialPause })
	p := t.peers[id]
	if p == nil {
		return nil
	}
	var addrs []string
	for _, a := range p.listAddrs() {
		_, tried := t.tried[a.HostPort]
		if slices.Contains(addrs, a.HostPort) || a.Source == MDNS && tried || slices.Contains(without, a.Source) {
			continue
		}
		if a.Source == MDNS {
			t.tried[a.HostPort] = now
		}
		addrs = append(addrs, a.HostPort)
	}
	return addrs
}

// Entries returns all peers, ordered by id.
func (t *Table) Entries() []Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	entries := make([]Entry, 0, len(t.peers))
	for id, p := range t.peers {
		entries = append(entries, p.newEntry(id))
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].ID.Compare(entries[j].ID) < 0 })
	return entries
}

// removeIfEmpty removes a peer without addresses.
func (t *Table) removeIfEmpty(id identity.ID, p *tableEntry) {
	if len(p.worked)+len(p.static)+len(p.hints) == 0 {
		delete(t.peers, id)
	}
}

func (p *tableEntry) listAddrs() []Addr {
	addrs := slices.Concat(p.worked, p.static)
	for _, h := range p.hints {
		addrs = append(addrs, Addr{h.addr.String(), MDNS})
	}
	return addrs
}

func (p *tableEntry) newEntry(id identity.ID) Entry {
	return Entry{ID: id, Claim: p.claim, Addrs: p.listAddrs(), LastSeen: p.seen}
}
