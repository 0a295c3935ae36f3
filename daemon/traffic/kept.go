package traffic

import (
	"cmp"
	"slices"

	"github.com/acpd/acpd/identity"
)

// kept holds entries within bounds, in a ring for each peer. When they are full, the largest ring drops its
// oldest ping, or its oldest entry if it has no ping. So no peer pushes out the messages of others, and its pings
// push out only each other.
type kept struct {
	bounds         Bounds
	rings          []*ring // in no order
	byPeer         map[identity.ID]*ring
	entries, bytes int
}

// ring is what is kept of the messages from and to one peer, each list in the order of the numbers.
type ring struct {
	peer           identity.ID
	at             int      // in kept.rings
	pings, others  []*entry // pings and discovers, and all else
	entries, bytes int      // of both lists, and of an entry that is being added
}

func (r *ring) listOf(isPing bool) *[]*entry {
	if isPing {
		return &r.pings
	}
	return &r.others
}

// setBounds sets the bounds, and drops what is beyond them.
func (k *kept) setBounds(b Bounds) {
	k.bounds = b
	k.dropBeyond()
}

// add adds an entry, whose number is above all others, after it has dropped entries to make room.
func (k *kept) add(e *entry) {
	r := k.byPeer[e.Peer]
	if r == nil {
		r = k.addRing(e.Peer)
	}
	k.count(r, 1, e.cost())
	k.dropBeyond()
	list := r.listOf(e.isPing)
	*list = append(*list, e)
}

// addRing adds the ring of a new peer.
func (k *kept) addRing(peer identity.ID) *ring {
	if k.byPeer == nil {
		k.byPeer = make(map[identity.ID]*ring)
	}
	r := &ring{peer: peer, at: len(k.rings)}
	k.rings = append(k.rings, r)
	k.byPeer[peer] = r
	return r
}

// removeRing removes a ring that has no entry.
func (k *kept) removeRing(r *ring) {
	last := len(k.rings) - 1
	k.rings[r.at] = k.rings[last]
	k.rings[r.at].at = r.at
	k.rings[last] = nil
	k.rings = k.rings[:last]
	delete(k.byPeer, r.peer)
}

// count adds entries and the bytes that they take to the sums.
func (k *kept) count(r *ring, entries, bytes int) {
	r.entries += entries
	r.bytes += bytes
	k.entries += entries
	k.bytes += bytes
}

// dropBeyond drops entries as long as there are more than the bounds allow.
func (k *kept) dropBeyond() {
	for k.entries > k.bounds.Entries || k.bytes > k.bounds.Bytes {
		r := k.findLargest()
		if r == nil {
			return
		}
		k.dropOldest(r)
	}
}

// findLargest returns the largest ring that has an entry to drop, or nil. A ring is as large as the part of
// the bound of entries that it takes, or of that of bytes, whichever is more.
func (k *kept) findLargest() (largest *ring) {
	most := int64(-1)
	for _, r := range k.rings {
		size := max(int64(r.entries)*int64(k.bounds.Bytes), int64(r.bytes)*int64(k.bounds.Entries))
		if size > most && len(r.pings)+len(r.others) > 0 {
			largest, most = r, size
		}
	}
	return largest
}

// dropOldest drops the oldest ping of a ring, or its oldest entry if it has no ping.
func (k *kept) dropOldest(r *ring) {
	list := r.listOf(len(r.pings) > 0)
	e := (*list)[0]
	(*list)[0] = nil
	*list = (*list)[1:]
	k.count(r, -1, -e.cost())
	if r.entries == 0 {
		k.removeRing(r)
	}
}

// forgetPeer drops all entries of a peer.
func (k *kept) forgetPeer(peer identity.ID) {
	for r := k.byPeer[peer]; r != nil && r.entries > 0; {
		k.dropOldest(r)
	}
}

// listAfter returns the entries whose numbers are above after, in no order.
func (k *kept) listAfter(after uint64) (all []*entry) {
	for _, r := range k.rings {
		for _, list := range [...][]*entry{r.pings, r.others} {
			first, _ := slices.BinarySearchFunc(list, after+1, func(e *entry, number uint64) int { return cmp.Compare(e.Seq, number) })
			all = append(all, list[first:]...)
		}
	}
	return all
}
