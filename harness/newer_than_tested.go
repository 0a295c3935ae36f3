package harness

import (
	"fmt"
	"slices"
)

// NewerThanTested returns "newer than tested (2.1.332)" if no test has seen a version of that program
// which is as new. Otherwise it returns an empty text.
func NewerThanTested(program, text string) string {
	limits, known := tested[program]
	v, err := parseVersion(text)
	if !known || err != nil || slices.Compare(v[:], limits[1][:]) < 0 {
		return ""
	}
	return fmt.Sprintf("newer than tested (%s)", limits[1])
}
