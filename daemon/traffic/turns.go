package traffic

import (
	"bytes"
	"slices"

	"github.com/acpd/acpd/identity"
)

// shareOut shares so many out to peers that want as many as counts says, in turns: whoever wants few gets
// all, and the others as many as each other, but for one.
func shareOut(counts map[identity.ID]int, most int) map[identity.ID]int {
	type want struct {
		peer identity.ID
		many int
	}
	var wants []want
	for peer, many := range counts {
		wants = append(wants, want{peer, many})
	}
	slices.SortFunc(wants, func(a, b want) int {
		if a.many != b.many {
			return a.many - b.many
		}
		return bytes.Compare(a.peer[:], b.peer[:])
	})
	given := make(map[identity.ID]int, len(wants))
	for i, w := range wants {
		given[w.peer] = min(w.many, most/(len(wants)-i))
		most -= given[w.peer]
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
