package traffic

import (
	"fmt"
	"slices"
	"testing"

	"github.com/acpd/acpd/identity"
)

func TestShareOut(t *testing.T) {
	for _, c := range []struct {
		counts []int
		most   int
		want   []int
	}{
		{[]int{1000, 1, 5}, 100, []int{94, 1, 5}},
		{[]int{10, 10, 10}, 100, []int{10, 10, 10}},
		{[]int{10, 10, 10}, 8, []int{3, 3, 2}},
		{[]int{5, 5, 5}, 2, []int{1, 1, 0}},
		{[]int{5}, 0, []int{0}},
		{nil, 5, nil},
	} {
		counts := make(map[identity.ID]int)
		for i, n := range c.counts {
			counts[identity.ID{byte(i)}] = n
		}
		given := shareOut(counts, c.most)
		for i, want := range c.want {
			if got := given[identity.ID{byte(i)}]; got != want || len(given) != len(c.want) {
				t.Errorf("%v, %d in all: peer %d has %d, want %d", c.counts, c.most, i, got, want)
			}
		}
	}
}

func TestTakeTurns(t *testing.T) {
	for _, c := range []struct {
		peers      string // of the things, each of which is as large as the peer's number
		most, room int
		want       []int
	}{
		{"1112", 10, 100, []int{0, 1, 2, 3}},
		{"1111111112", 3, 100, []int{0, 1, 9}},
		{"1212", 2, 100, []int{0, 1}},
		{"111119", 10, 12, []int{0, 1, 2, 5}},
		{"9111", 10, 5, []int{1, 2, 3}}, // what has no room keeps nobody else out
		{"", 10, 5, nil},
		{"111", 0, 5, nil},
	} {
		got := TakeTurns(len(c.peers), c.most, c.room, func(i int) (identity.ID, int) {
			n := int(c.peers[i] - '0')
			return identity.ID{byte(n)}, n
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %s, want %v", fmt.Sprint(c.peers, " ", c.most, " ", c.room), fmt.Sprint(got), c.want)
		}
	}
}
