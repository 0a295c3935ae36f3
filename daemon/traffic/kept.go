package traffic

import "github.com/acpd/acpd/identity"

const (
	entryCost = 128 // bytes of an entry's places in the order
	shareCost = 256 // of a peer's share
	leastCost = entryCost + blockBytes
)

// kept is the entries that are kept, within bounds. When they are full, the peer that has most of them
// loses its oldest ping or, if it has none, its oldest entry: so none pushes out what the others said, and
// its pings push out each other.
type kept struct {
	bounds  Bounds
	arena   arena
	order   order
	shares  shares
	bytes   int    // of memory
	evicted uint64 // the highest number of an entry that had to go
	moved   uint64 // while entries are moved: the number of the last that is
}

// countBlocks returns how many blocks hold so many bytes.
func countBlocks(size int) int { return (size + blockData - 1) / blockData }

// cost returns how many bytes of memory the entry takes.
func (d *draft) cost() int { return entryCost + countBlocks(d.entryBytes)*blockBytes }

// setBounds sets the bounds. What is kept beyond them goes when trim is called, or another entry comes; if
// nothing is to be kept, it goes at once.
func (k *kept) setBounds(b Bounds) {
	if k.bounds == b {
		return
	}
	if b.Entries == 0 {
		if n := k.order.count; n > 0 {
			k.evicted = max(k.evicted, k.order.at(n-1).number)
		}
		*k = kept{evicted: k.evicted}
		return
	}
	k.bounds = b
	k.shares.setBounds(b)
}

// add makes room for the entry of a draft, dropping others for it, and returns the writer to which the
// caller writes it before anything else. There is room for one entry at least.
func (k *kept) add(number uint64, d *draft) writer {
	cost := d.cost()
	peers := len(k.shares.all)
	of := k.shares.grow(d.peer, cost)
	k.bytes += cost + (len(k.shares.all)-peers)*shareCost
	k.evictAbove(k.bounds.Entries-1, 1+(cost+shareCost)/leastCost) // as many as it needs if no more was kept than may be
	first, w := k.arena.begin()
	l := of.listOf(d.flags&flagPing != 0)
	if l.oldest == 0 {
		l.oldest = first
	} else {
		k.arena.at(l.newest).newer = first
	}
	l.newest = first
	k.order.push(number, first)
	return w
}

// findOwnVictim returns the number of the entry that goes first for that of a draft, and whether there is one that is
// of the same peer and no ping that goes for something else.
func (k *kept) findOwnVictim(d *draft) (number uint64, isOwn bool) {
	if k.order.entries() < k.bounds.Entries && k.bytes+d.cost() <= k.bounds.Bytes {
		return 0, false
	}
	of := k.shares.byPeer[d.peer]
	if of == nil || !k.shares.wouldBeLargest(of, d.cost()) {
		return 0, false
	}
	l := of.nextToShed()
	return k.arena.numberOf(l.oldest), l == &of.others || d.flags&flagPing != 0
}

// evictAbove drops entries, at most so many, as long as there are more than that, or more bytes than may be
// kept.
func (k *kept) evictAbove(entries, most int) {
	for n := k.order.entries(); most > 0 && n > 0 && (n > entries || k.bytes > k.bounds.Bytes); most-- {
		k.evict()
		n--
	}
}

// evict drops the oldest ping of the peer that has most, or its oldest entry if it has no ping. There is one.
func (k *kept) evict() { k.evictOf(k.shares.largest()) }

// forgetPeer drops all entries of a peer.
func (k *kept) forgetPeer(peer identity.ID) {
	for of := k.shares.byPeer[peer]; of != nil && of.entries > 0; {
		k.evictOf(of)
	}
}

// evictOf does what evict does, for the peer that has a share.
func (k *kept) evictOf(of *share) {
	l := of.nextToShed()
	first := l.oldest
	number := k.arena.numberOf(first)
	l.oldest = k.arena.at(first).newer
	cost := entryCost + k.arena.giveBack(first)*blockBytes
	k.order.remove(number)
	k.bytes -= cost
	k.evicted = max(k.evicted, number)
	if k.shares.shed(of, cost); of.entries == 0 {
		k.bytes -= shareCost
	}
}
