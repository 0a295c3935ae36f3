package traffic

const (
	trimmedEntries = 64       // that go, or are moved, at a time
	trimmedBytes   = 32 << 10 // after which no further entry is moved at a time
)

// trim drops what is beyond the bounds, and then moves the rest into new memory if it takes much less than
// what there is. While it moves, there is both. It does a piece of that, and reports whether there was one
// to do.
func (k *kept) trim() (wasDue bool) {
	if k.isBeyond() {
		k.evictAbove(k.bounds.Entries, trimmedEntries)
		return true
	}
	if !k.arena.isMoving() {
		k.order.shrink()
		if used := k.bytes - k.order.entries()*entryCost; k.arena.countMade()*blockBytes <= min(2*used+chunkBlocks*blockBytes, k.bounds.Bytes) {
			return false
		}
		k.moved = 0
		k.arena.beginMove()
	}
	k.moveSome()
	return true
}

func (k *kept) isBeyond() bool {
	return k.order.entries() > k.bounds.Entries || k.bytes > k.bounds.Bytes
}

// moveSome moves the next entries, in the order of their numbers. Those that were added since beginMove are
// the last, and where they should be.
func (k *kept) moveSome() {
	i, bytes := k.order.search(k.moved), 0
	for range trimmedEntries {
		if i == k.order.count || k.order.at(i).first != 0 && !k.arena.isLeft(k.order.at(i).first) {
			k.arena.endMove()
			return
		}
		p := k.order.at(i)
		if k.moved = p.number; p.first != 0 {
			bytes += k.move(p)
		}
		if i++; bytes >= trimmedBytes {
			return
		}
	}
}

// move moves an entry, which is the oldest of its list that is not moved yet, and returns its size.
func (k *kept) move(p *place) (size int) {
	old := k.arena.at(p.first)
	l := k.shares.byPeer[readPeer(old.data[:])].listOf(readFlags(old.data[:])&flagPing != 0)
	first, w := k.arena.begin()
	k.arena.at(first).newer = old.newer
	for b := old; ; b = k.arena.at(b.next) {
		write(&w, b.data[:])
		if size += blockBytes; b.next == 0 {
			break
		}
	}
	if l.oldest == p.first {
		l.oldest = first
	} else {
		k.arena.at(l.moved).newer = first
	}
	if l.newest == p.first {
		l.newest = first
	}
	k.arena.giveBack(p.first)
	l.moved, p.first = first, first
	return size
}
