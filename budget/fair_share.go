package budget

import (
	"github.com/acpd/acpd/identity"
)

// checkRoom returns an [*ExceededError] unless who may hold n more. Callers hold mu.
func (a *Account) checkRoom(who identity.ID, n int64) error {
	held, certified := a.findHolder(who)
	switch {
	case held+n > a.row.Peer:
		return &ExceededError{Row: a.row}
	case a.row.All > 0 && !a.hasRoomInSum(held, n, certified):
		return &ExceededError{Row: a.row, All: true}
	}
	return nil
}

// hasRoomInSum reports whether the sum has room for n more of a peer that holds held. Half of
// the sum is set aside, an equal part for each peer that the owner trusts. Only the other half is
// for what peers hold beyond their part, and for all that certified peers hold:
// so these have half at most together, and take nothing that was set aside.
func (a *Account) hasRoomInSum(held, n int64, certified bool) bool {
	if a.sum+n > a.row.All {
		return false
	}
	if a.sum+n <= a.row.All-a.row.All/2 {
		return true // it fits the half that is shared
	}
	part := a.row.All / 2 / a.book.countPeerParts()
	beyond := n
	if !certified {
		if held+n <= part {
			return true
		}
		beyond = held + n - max(held, part)
	}
	for id, h := range a.held {
		if _, ok := a.names[id]; ok {
			beyond += h
		} else {
			beyond += max(h-part, 0)
		}
	}
	return beyond <= a.row.All-a.row.All/2
}

// countPeerParts returns into how many parts the half that is set aside is divided.
func (b *Book) countPeerParts() int64 {
	if b.Peers == nil {
		return 1
	}
	return max(int64(b.Peers()), 1)
}
