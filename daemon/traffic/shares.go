package traffic

import (
	"container/heap"

	"github.com/acpd/acpd/identity"
)

// share is what is kept of the messages from and to one peer.
type share struct {
	peer           identity.ID
	oldest, newest uint32 // first blocks; 0: there is no entry yet
	moved          uint32 // first block of the entry that kept.move moved last
	entries, bytes int
	at             int // in shares.all
}

// shares has the share of each peer of which something is kept, the largest first. A share is as large as
// the part of the bound of entries that it takes, or of that of bytes, whichever is more.
type shares struct {
	bounds Bounds
	all    []*share // a heap
	byPeer map[identity.ID]*share
	spare  *share // one that is used by nobody
}

func (s *shares) Len() int { return len(s.all) }

func (s *shares) Less(i, j int) bool { return s.measure(s.all[i]) > s.measure(s.all[j]) }

func (s *shares) Swap(i, j int) {
	s.all[i], s.all[j] = s.all[j], s.all[i]
	s.all[i].at, s.all[j].at = i, j
}

// Push is of the heap.
func (s *shares) Push(x any) {
	one := x.(*share)
	one.at = len(s.all)
	s.all = append(s.all, one)
}

// Pop is of the heap.
func (s *shares) Pop() any {
	last := len(s.all) - 1
	one := s.all[last]
	s.all[last], s.all = nil, s.all[:last]
	return one
}

func (s *shares) measure(one *share) uint64 {
	return max(uint64(one.entries)*uint64(s.bounds.Bytes), uint64(one.bytes)*uint64(s.bounds.Entries))
}

// setBounds has shares measured by other bounds.
func (s *shares) setBounds(b Bounds) {
	if s.bounds != b {
		s.bounds = b
		heap.Init(s)
	}
}

// grow adds an entry of so many bytes to the share of a peer, and returns that.
func (s *shares) grow(peer identity.ID, bytes int) *share {
	one := s.byPeer[peer]
	if one == nil {
		if one = s.spare; one == nil {
			one = new(share)
		}
		s.spare = nil
		*one = share{peer: peer}
		if s.byPeer == nil {
			s.byPeer = make(map[identity.ID]*share)
		}
		s.byPeer[peer] = one
		heap.Push(s, one)
	}
	one.entries++
	one.bytes += bytes
	s.fix(one)
	return one
}

// shed takes an entry of so many bytes from a share, which ends with its last.
func (s *shares) shed(one *share, bytes int) {
	one.entries--
	one.bytes -= bytes
	if one.entries > 0 {
		s.fix(one)
		return
	}
	heap.Remove(s, one.at)
	delete(s.byPeer, one.peer)
	s.spare = one
}

// fix has a share at its place, after it has changed.
func (s *shares) fix(one *share) {
	if len(s.all) > 1 {
		heap.Fix(s, one.at)
	}
}

// largest returns the largest share that has an entry in the arena: one that is just being written is none.
func (s *shares) largest() *share {
	if s.all[0].oldest != 0 {
		return s.all[0]
	}
	next := s.all[1]
	if len(s.all) > 2 && s.Less(2, 1) {
		next = s.all[2]
	}
	return next
}
