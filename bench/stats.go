package main

import (
	"math"
	"slices"
)

// A spread summarises values: the median and the quartiles around it.
type spread struct {
	q1, median, q3 float64
}

// summarizeValues interpolates linearly between the two nearest values, as most statistics programs do (type 7 of
// Hyndman and Fan, 1996). It does not change values.
func summarizeValues(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	at := func(q float64) float64 {
		pos := q * float64(len(sorted)-1)
		low, part := math.Modf(pos)
		i := int(low)
		if part == 0 {
			return sorted[i]
		}
		return sorted[i] + part*(sorted[i+1]-sorted[i])
	}
	return spread{q1: at(0.25), median: at(0.5), q3: at(0.75)}
}
