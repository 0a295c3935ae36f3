package budget

import (
	"sync"
	"sync/atomic"

	"github.com/acpd/acpd/identity"
)

// Share is what one peer holds of a row that is taken and given back for every
// message. It takes from the account in chunks, so that Reserve and Release usually
// cost one atomic operation each. The rest of a chunk is held until ReleaseUnused.
type Share struct {
	account *Account
	who     identity.ID
	chunk   int64

	used    atomic.Int64
	granted atomic.Int64 // by the account; changed under mu

	mu sync.Mutex
}

// NewShare returns the share of a peer, which takes chunk at a time. There is one for
// each peer and row.
func (a *Account) NewShare(who identity.ID, chunk int64) *Share {
	return &Share{account: a, who: who, chunk: chunk}
}

// Reserve takes n more, or returns an [*ExceededError].
func (s *Share) Reserve(n int64) error {
	if s.used.Add(n) <= s.granted.Load() {
		return nil
	}
	if err := s.reserveChunk(); err != nil {
		s.used.Add(-n)
		return err
	}
	return nil
}

// reserveChunk takes from the account what is used, and a chunk more if there is room.
func (s *Share) reserveChunk() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	granted := s.granted.Load()
	need := s.used.Load() - granted
	if need <= 0 {
		return nil
	}
	want := min(need+s.chunk-1, max(need, s.account.row.Peer-granted))
	if want == need || !s.account.hasRoom(s.who, want) {
		want = need
	}
	if err := s.account.Reserve(s.who, want); err != nil {
		return err
	}
	s.granted.Add(want)
	return nil
}

// Release gives n back.
func (s *Share) Release(n int64) { s.used.Add(-n) }

// Used returns how much is in use now.
func (s *Share) Used() int64 { return s.used.Load() }

// ReleaseUnused gives back to the account what is left beyond a chunk, and everything if nothing is
// in use. The owner of the share calls it now and then.
func (s *Share) ReleaseUnused() {
	if s.granted.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := s.used.Load()
	if keep > 0 {
		keep += s.chunk
	}
	// A Reserve meanwhile may have seen the larger number. The next Reserve grants what it took
	// beyond.
	if free := s.granted.Load() - keep; free > 0 {
		s.granted.Add(-free)
		s.account.Release(s.who, free)
	}
}
