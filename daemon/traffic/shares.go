package traffic

import "github.com/acpd/acpd/identity"

// share is what is kept of the messages from and to one peer.
type share struct {
	peer           identity.ID
	pings, others  list // pings and discovers, and all else
	entries, bytes int
	at             int // in shares.all
}

// list is entries of one peer, in the order of their numbers.
type list struct {
	oldest, newest uint32 // first blocks; oldest is 0 if there is no entry in the arena
	moved          uint32 // first block of the entry that kept.move moved last
}

// listOf returns the list that has pings, or the one that has all else.
func (s *share) listOf(isPing bool) *list {
	if isPing {
		return &s.pings
	}
	return &s.others
}

// nextToShed returns the list whose oldest entry goes next: pings go before all else.
func (s *share) nextToShed() *list { return s.listOf(s.pings.oldest != 0) }

// shares has the share of each peer of which something is kept, the largest first. A share is as large as
// the part of the bound of entries that it takes, or of that of bytes, whichever is more.
type shares struct {
	bounds Bounds
	all    []sized // a heap: none is larger than the one right above it
	byPeer map[identity.ID]*share
	spare  *share // one that is used by nobody
}

// sized is a share with its size: so shares are compared without a look at them, of which there may be thousands.
type sized struct {
	size uint64
	*share
}

// branches is how many shares of the heap lie right below one: those below i begin at branches*i+1.
const branches = 4

func (s *shares) measure(one *share) uint64 {
	return max(uint64(one.entries)*uint64(s.bounds.Bytes), uint64(one.bytes)*uint64(s.bounds.Entries))
}

// setBounds has shares measured by other bounds.
func (s *shares) setBounds(b Bounds) {
	if s.bounds == b {
		return
	}
	s.bounds = b
	for i := len(s.all) - 1; i >= 0; i-- {
		s.all[i].size = s.measure(s.all[i].share)
		s.sink(i)
	}
}

// grow adds an entry of so many bytes to the share of a peer, and returns that.
func (s *shares) grow(peer identity.ID, bytes int) *share {
	one := s.byPeer[peer]
	if one == nil {
		one = s.add(peer)
	}
	one.entries++
	one.bytes += bytes
	if s.all[one.at].size = s.measure(one); one.at > 0 {
		s.rise(one.at)
	}
	return one
}

// add adds a share that has nothing.
func (s *shares) add(peer identity.ID) *share {
	one := s.spare
	if one == nil {
		one = new(share)
	}
	s.spare = nil
	*one = share{peer: peer, at: len(s.all)}
	if s.byPeer == nil {
		s.byPeer = make(map[identity.ID]*share)
	}
	s.byPeer[peer] = one
	s.all = append(s.all, sized{0, one})
	return one
}

// shed takes an entry of so many bytes from a share, which ends with its last.
func (s *shares) shed(one *share, bytes int) {
	one.entries--
	one.bytes -= bytes
	if one.entries > 0 {
		if s.all[one.at].size = s.measure(one); len(s.all) > 1 {
			s.sink(one.at)
		}
		return
	}
	last := len(s.all) - 1
	moved := s.all[last]
	s.all[last] = sized{}
	if s.all = s.all[:last]; one.at < last {
		s.put(one.at, moved)
		s.rise(moved.at)
		s.sink(moved.at)
	}
	delete(s.byPeer, one.peer)
	s.spare = one
}

// largest returns the largest share that has an entry in the arena: one that is just being written is none.
func (s *shares) largest() *share {
	if one := s.all[0].share; one.nextToShed().oldest != 0 {
		return one
	}
	return s.all[s.largestBelow(0)].share
}

// wouldBeLargest reports whether largest would return a share that has an entry if it had one more, of so many bytes.
func (s *shares) wouldBeLargest(one *share, bytes int) bool {
	largest := s.largest()
	return one == largest || s.measure(&share{entries: one.entries + 1, bytes: one.bytes + bytes}) > s.all[largest.at].size
}

// largestBelow returns which is the largest share of those right below i; not one of them if there is none.
func (s *shares) largestBelow(i int) (largest int) {
	largest = branches*i + 1
	for j := largest + 1; j < min(branches*(i+1)+1, len(s.all)); j++ {
		if s.all[j].size > s.all[largest].size {
			largest = j
		}
	}
	return largest
}

// rise has a share at its place, after it has become larger.
func (s *shares) rise(i int) {
	for one := s.all[i]; ; {
		above := (i - 1) / branches
		if i == 0 || s.all[above].size >= one.size {
			s.put(i, one)
			return
		}
		s.put(i, s.all[above])
		i = above
	}
}

// sink has a share at its place, after it has become smaller.
func (s *shares) sink(i int) {
	for one := s.all[i]; ; {
		below := s.largestBelow(i)
		if below >= len(s.all) || s.all[below].size <= one.size {
			s.put(i, one)
			return
		}
		s.put(i, s.all[below])
		i = below
	}
}

func (s *shares) put(i int, one sized) {
	s.all[i] = one
	one.at = i
}
