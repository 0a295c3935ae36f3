package turns

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestShareOut(t *testing.T) {
	for _, c := range []struct {
		wants []int
		most  int
		want  []int
	}{
		{[]int{1000, 1, 5}, 100, []int{94, 1, 5}},
		{[]int{10, 10, 10}, 100, []int{10, 10, 10}},
		{[]int{10, 10, 10}, 8, []int{3, 3, 2}},
		{[]int{5, 5, 5}, 2, []int{1, 1, 0}},
		{[]int{1, 5, 9, 5}, 12, []int{1, 4, 4, 3}},
		{[]int{0, 3}, 2, []int{0, 2}},
		{[]int{5}, 0, []int{0}},
		{nil, 5, []int{}},
	} {
		if got := ShareOut(c.wants, c.most); !slices.Equal(got, c.want) {
			t.Errorf("%d of %d: %d, want %d", c.most, c.wants, got, c.want)
		}
	}
}

// TestShareOutIsByTurns: it comes to the same as giving one to each who wants more, again and again.
func TestShareOutIsByTurns(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		wants := make([]int, random.IntN(8))
		for i := range wants {
			wants[i] = random.IntN(12)
		}
		most := random.IntN(60)
		want, left := make([]int, len(wants)), most
		for given := true; given && left > 0; {
			given = false
			for i := range wants {
				if want[i] < wants[i] && left > 0 {
					want[i]++
					left--
					given = true
				}
			}
		}
		if got := ShareOut(wants, most); !slices.Equal(got, want) {
			t.Fatalf("%d of %d: %d, want %d", most, wants, got, want)
		}
	}
}
