package traffic

import (
	"maps"
	"slices"
	"sort"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/turns"
)

// shareOut shares most out to peers, by turns: a peer gets at most its number in counts.
func shareOut(counts map[identity.ID]int, most int) map[identity.ID]int {
	peers := slices.Collect(maps.Keys(counts))
	sort.Slice(peers, func(i, j int) bool { return peers[i].Compare(peers[j]) < 0 })
	wants := make([]int, len(peers))
	for i, peer := range peers {
		wants[i] = counts[peer]
	}
	given := make(map[identity.ID]int, len(peers))
	for i, share := range turns.ShareOut(wants, most) {
		given[peers[i]] = share
	}
	return given
}

// TakeTurns returns which of n things, in their order, have room: peers have turns, and of each its first
// things come first. of returns the peer and the size of one.
func TakeTurns(n, most, room int, of func(i int) (identity.ID, int)) (taken []int) {
	byPeer := make(map[identity.ID][]int)
	var peers []identity.ID // in the order of their first things
	for i := range n {
		peer, _ := of(i)
		if byPeer[peer] == nil {
			peers = append(peers, peer)
		}
		byPeer[peer] = append(byPeer[peer], i)
	}
	for len(peers) > 0 {
		peers = slices.DeleteFunc(peers, func(peer identity.ID) bool {
			list := byPeer[peer]
			_, size := of(list[0])
			if len(taken) == most || size > room {
				return true
			}
			taken, room = append(taken, list[0]), room-size
			byPeer[peer] = list[1:]
			return len(list) == 1
		})
	}
	slices.Sort(taken)
	return taken
}
