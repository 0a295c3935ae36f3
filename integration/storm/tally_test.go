package storm

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestEveryFaultComesBeforeAnyComesAgain(t *testing.T) {
	w := &Weather{rnd: rand.New(rand.NewPCG(rand.Uint64(), 0))}
	const faults = 7
	for range 3 {
		var drawn []int
		for range faults {
			drawn = append(drawn, w.DrawFault(faults))
		}
		slices.Sort(drawn)
		if want := []int{0, 1, 2, 3, 4, 5, 6}; !slices.Equal(drawn, want) {
			t.Errorf("drawn: %v, want each of %v once", drawn, want)
		}
	}
}

func TestWhatHardlyCameIsUnshown(t *testing.T) {
	for _, c := range []struct {
		met  int
		want []string
	}{
		{99, []string{"during loss: 99 of 10000 calls, want 1 % at least"}},
		{100, nil},
	} {
		tally := newTally([]string{"loss"})
		tally.Ends = [ends]int{Succeeded: 9000, NotDelivered: 900, Failed: 100}
		tally.Met[0] = c.met
		if got := tally.listUnshown(); !slices.Equal(got, c.want) {
			t.Errorf("a fault during %d calls: %q, want %q", c.met, got, c.want)
		}
	}
}
