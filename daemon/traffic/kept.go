package traffic

import (
	"github.com/acpd/acpd/identity"
)

const (
	entryCost = 128 // bytes of an entry's places in the order
	shareCost = 256 // of a peer's share
)

// kept is the entries that are kept, within bounds. When they are full, the peer that has most of them
// loses its oldest: so none pushes out what the others said.
type kept struct {
	bounds  Bounds
	arena   arena
	order   order
	shares  shares
	bytes   int    // of memory
	evicted uint64 // the highest number of an entry that had to go
}

// countBlocks returns how many blocks hold so many bytes.
func countBlocks(size int) int { return (size + blockData - 1) / blockData }

// setBounds sets the bounds, drops what is beyond them, and gives the memory back.
func (k *kept) setBounds(b Bounds) {
	if k.bounds == b {
		return
	}
	k.bounds = b
	k.shares.setBounds(b)
	for k.order.entries() > b.Entries || k.bytes > b.Bytes {
		k.evict()
	}
	if b.Entries == 0 {
		*k = kept{evicted: k.evicted}
		return
	}
	k.order.shrink()
	if used := k.bytes - k.order.entries()*entryCost; int(k.arena.made)*blockBytes > min(2*used+chunkBlocks*blockBytes, b.Bytes) {
		k.pack()
	}
}

// pack moves all entries into new memory that is as large as they are.
func (k *kept) pack() {
	packed := kept{bounds: k.bounds, shares: shares{bounds: k.bounds}, evicted: k.evicted}
	var data []byte
	for i := range k.order.count {
		if p := k.order.at(i); p.first != 0 {
			data = k.arena.appendTo(data[:0], p.first)
			w := packed.add(p.number, readPeer(data), len(data))
			write(&w, data)
		}
	}
	*k = packed
}

// add makes room for an entry of so many bytes, dropping others for it, and returns the writer to which
// the caller writes them before anything else. There is room for one entry at least.
func (k *kept) add(number uint64, peer identity.ID, size int) writer {
	cost := entryCost + countBlocks(size)*blockBytes
	peers := len(k.shares.all)
	of := k.shares.grow(peer, cost)
	k.bytes += cost + (len(k.shares.all)-peers)*shareCost
	for k.order.entries() >= k.bounds.Entries || k.bytes > k.bounds.Bytes && k.order.entries() > 0 {
		k.evict()
	}
	first, w := k.arena.begin()
	if of.oldest == 0 {
		of.oldest = first
	} else {
		k.arena.at(of.newest).newer = first
	}
	of.newest = first
	k.order.push(number, first)
	return w
}

// evict drops the oldest entry of the peer that has most. There is one.
func (k *kept) evict() {
	of := k.shares.largest()
	first := of.oldest
	number := k.arena.numberOf(first)
	of.oldest = k.arena.at(first).newer
	cost := entryCost + k.arena.giveBack(first)*blockBytes
	k.order.remove(number)
	k.bytes -= cost
	k.evicted = max(k.evicted, number)
	if k.shares.shed(of, cost); of.entries == 0 {
		k.bytes -= shareCost
	}
}
