// Package turns shares out what there is too little of.
package turns

import "slices"

// ShareOut shares n things out by turns, and returns how many each has. wants says how many each wants, and
// nobody gets more. Those who want few have all of them. The others have as many as each other; what is left
// over then goes to the first of them, one each. No number is negative.
func ShareOut(wants []int, n int) []int {
	level, over := findLevel(wants, n)
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

// findLevel returns how many of n things there are for each who wants as many or more, and how many are
// left over then.
func findLevel(wants []int, n int) (level, over int) {
	sorted := slices.Sorted(slices.Values(wants))
	for i, want := range sorted {
		if left := len(sorted) - i; want*left > n {
			return n / left, n % left
		}
		n -= want
		level = want
	}
	return level, 0
}
