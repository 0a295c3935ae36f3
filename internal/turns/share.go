// Package turns shares out what there is too little of.
package turns

import "slices"

// ShareOut shares most things out by turns, to those who want as many as wants says, and returns how many each
// has: whoever wants few has all of them, and the others as many as each other, but for one. What is left over
// then goes to those that stand first. No number is negative.
func ShareOut(wants []int, most int) []int {
	level, over := findLevel(wants, most)
	shares := make([]int, len(wants))
	for i, want := range wants {
		shares[i] = min(want, level)
		if want > level && over > 0 {
			shares[i]++
			over--
		}
	}
	return shares
}

// findLevel returns how many there are for each who wants as many or more, and how many are left over then.
func findLevel(wants []int, most int) (level, over int) {
	sorted := slices.Sorted(slices.Values(wants))
	for i, want := range sorted {
		if n := len(sorted) - i; want*n > most {
			return most / n, most % n
		}
		most -= want
		level = want
	}
	return level, 0
}
