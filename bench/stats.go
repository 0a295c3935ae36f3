package main

import (
	"math"
	"slices"
)

// A spread summarises values: the median and the quartiles around it.
type spread struct {
	q1, median, q3 float64
}

// summarizeValues interpolates linearly between the two nearest values, as most
// statistics programs do (type 7 of Hyndman and Fan, 1996). It does not change values.
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

// relativeSpread is the distance between the quartiles as a share of the median.
func (s spread) relativeSpread() float64 { return (s.q3 - s.q1) / s.median }

// metric picks one figure of a sample.
type metric func(sample) float64

func pickP50(s sample) float64  { return s.p50 }
func pickP99(s sample) float64  { return s.p99 }
func pickRate(s sample) float64 { return s.rate }
func pickCPU(s sample) float64  { return s.cpu }

// summarizeRounds summarises one figure over the rounds.
func (m metric) summarizeRounds(samples []sample) spread {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = m(s)
	}
	return summarizeValues(values)
}

// divideRounds returns the quotients of one figure, each taken within a round.
func (m metric) divideRounds(over, under []sample) []float64 {
	values := make([]float64, len(over))
	for i := range over {
		values[i] = m(over[i]) / m(under[i])
	}
	return values
}

// summarizeRatios summarises these quotients.
func (m metric) summarizeRatios(over, under []sample) spread {
	return summarizeValues(m.divideRounds(over, under))
}
