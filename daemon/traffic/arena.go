package traffic

import "encoding/binary"

const (
	blockBytes  = 256
	blockData   = blockBytes - 8
	chunkBlocks = 64
)

// block is a part of what an entry says. It has no pointers, so that the garbage collector never looks
// at what is kept.
type block struct {
	next  uint32 // the next of the entry, or the next that is free; 0: there is none
	newer uint32 // in the first of an entry: the first of the next entry of the same list; 0: there is none
	data  [blockData]byte
}

// arena gives out blocks by number, from 1, and takes them back. Its blocks are in one of two halves, of which
// the highest bit of the number says which. So entries can be moved into new memory, one after another.
type arena struct {
	halves  [2]half
	current uint32 // the half that gives out blocks; the other one is empty unless entries are being moved out of it
}

// half makes blocks by the chunk, when one is wanted.
type half struct {
	chunks []*[chunkBlocks]block
	made   uint32 // blocks that were given out at least once
	free   uint32 // one that is free; 0: there is none
}

// halfBit is that bit.
const halfBit = 31

func halfOf(n uint32) uint32 { return n >> halfBit }

func (a *arena) at(n uint32) *block {
	chunks, i := a.halves[halfOf(n)].chunks, n&^(1<<halfBit)-1
	return &chunks[i/chunkBlocks][i%chunkBlocks]
}

// countMade returns how many blocks there are, free ones included.
func (a *arena) countMade() int { return int(a.halves[0].made) + int(a.halves[1].made) }

// take gives out a block that ends its entry.
func (a *arena) take() uint32 {
	h := &a.halves[a.current]
	if n := h.free; n != 0 {
		b := a.at(n)
		h.free, b.next = b.next, 0
		return n
	}
	if int(h.made) == len(h.chunks)*chunkBlocks {
		h.chunks = append(h.chunks, new([chunkBlocks]block))
	}
	h.made++
	return a.current<<halfBit | h.made
}

// giveBack takes the blocks of an entry back, and returns how many they were.
func (a *arena) giveBack(first uint32) (blocks int) {
	last := a.at(first)
	for blocks = 1; last.next != 0; blocks++ {
		last = a.at(last.next)
	}
	h := &a.halves[halfOf(first)]
	h.free, last.next = first, h.free
	return blocks
}

// beginMove has the other half, which is empty, give out blocks.
func (a *arena) beginMove() { a.current ^= 1 }

// isMoving reports whether endMove is due, when all entries are moved.
func (a *arena) isMoving() bool { return a.halves[a.current^1].made > 0 }

// isLeft reports whether an entry is still where it was before beginMove.
func (a *arena) isLeft(first uint32) bool { return halfOf(first) != a.current }

// endMove gives up the memory out of which all entries were moved.
func (a *arena) endMove() { a.halves[a.current^1] = half{} }

// numberOf returns the number of an entry, with which its data begins.
func (a *arena) numberOf(first uint32) uint64 {
	return binary.LittleEndian.Uint64(a.at(first).data[:])
}

// appendTo appends the data of an entry to data, with what lies behind it in its last block.
func (a *arena) appendTo(data []byte, first uint32) []byte {
	for n := first; n != 0; n = a.at(n).next {
		data = append(data, a.at(n).data[:]...)
	}
	return data
}

// writer writes the data of an entry into blocks.
type writer struct {
	arena *arena
	last  *block
	used  int // bytes of last
}

// begin takes the first block of an entry, and returns it with a writer to it.
func (a *arena) begin() (first uint32, w writer) {
	first = a.take()
	last := a.at(first)
	last.newer = 0
	return first, writer{a, last, 0}
}

// write appends text to the entry of w.
func write[T []byte | string](w *writer, text T) {
	for len(text) > 0 {
		if w.used == blockData {
			w.last.next = w.arena.take()
			w.last, w.used = w.arena.at(w.last.next), 0
		}
		n := copy(w.last.data[w.used:], text)
		w.used += n
		text = text[n:]
	}
}
