package config

import (
	"errors"
	"fmt"
	"slices"
)

// maxErrors bounds the errors that are reported of one file.
const maxErrors = 20

// Error is one thing wrong with a configuration file.
type Error struct {
	File    string
	Line    int // from 1
	Problem string
	Remedy  string
}

func (e *Error) Error() string {
	return fmt.Sprintf("config: %s:%d: %s: %s", e.File, e.Line, e.Problem, e.Remedy)
}

// joinErrors joins errs in the order of the file, the first maxErrors of them.
func joinErrors(errs []*Error) error {
	slices.SortStableFunc(errs, func(a, b *Error) int { return a.Line - b.Line })
	var list []error
	for i, e := range errs {
		if i == maxErrors {
			list = append(list, fmt.Errorf("config: %s: %d more errors", e.File, len(errs)-i))
			break
		}
		list = append(list, e)
	}
	return errors.Join(list...)
}

// findNearestWord returns the word that was most likely meant, or "".
func findNearestWord(word string, words []string) string {
	best, bound := "", len(word)/3+2
	if len(word) > 64 {
		return ""
	}
	for _, w := range words {
		if d := editDistance(word, w); d < bound {
			best, bound = w, d
		}
	}
	return best
}

// editDistance counts the bytes to insert, delete, replace, or swap with their
// neighbour, to make b of a (optimal string alignment).
func editDistance(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
