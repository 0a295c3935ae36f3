package traffic

import (
	"fmt"
	"slices"
	"testing"

	"github.com/acpd/acpd/identity"
)

// Each peer has its own share; what is left over goes to the lowest id.
func TestShareOut(t *testing.T) {
	many, few := identity.ID{1}, identity.ID{2}
	for most, want := range map[int]int{2: 1, 3: 2, 100: 97} {
		if given := shareOut(map[identity.ID]int{many: 1000, few: 3}, most); given[many] != want || given[few] != min(most-want, 3) {
			t.Errorf("of %d: %v, want %d for the one that wants many", most, given, want)
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
