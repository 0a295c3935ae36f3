package main

import "fmt"

const (
	tolerance  = 0.05 // a target is met this close to it
	maxScatter = 0.10 // where the quartiles are further apart, as a share of the median, the CPU time decides
)

// A pair is two variants whose figures are divided by each other.
type pair struct {
	variant, base string
}

// pairs lists the ratios that are reported.
var pairs = []pair{{"floor", "quic"}, {"node", "quic"}, {"acpd", "floor"}, {"before", "floor"}, {"acpd", "before"}}

// A target bounds the ratio of a pair in some cells: exactly one of p50 (at most)
// and rate (at least) is set.
type target struct {
	pair             pair
	minSize, maxSize int // bytes
	minConc, maxConc int
	p50, rate        float64
}

var targets = []target{
	{pair: pair{"node", "quic"}, maxSize: 1 << 20, minConc: 1, maxConc: 1, p50: 1.15},
	{pair: pair{"acpd", "floor"}, maxSize: 1 << 10, minConc: 1, maxConc: 1, p50: 1.4},
	{pair: pair{"acpd", "floor"}, maxSize: 1 << 10, minConc: 16, maxConc: 64, rate: 0.65},
	{pair: pair{"acpd", "floor"}, minSize: 60 << 10, maxSize: 60 << 10, minConc: 1, maxConc: 64, p50: 2.0},
}

// findTarget finds the target for a pair in a cell.
func findTarget(p pair, c cell) (target, bool) {
	for _, t := range targets {
		if t.pair == p && t.minSize <= c.size && c.size <= t.maxSize && t.minConc <= c.conc && c.conc <= t.maxConc {
			return t, true
		}
	}
	return target{}, false
}

func (t target) String() string {
	if t.rate > 0 {
		return fmt.Sprintf("requests/s ≥ %.2f", t.rate)
	}
	return fmt.Sprintf("p50 ≤ %.2f", t.p50)
}

// A verdict says whether a target is met, and by which figure.
type verdict struct {
	met   bool
	byCPU bool
}

func (v verdict) String() string {
	word := "missed"
	if v.met {
		word = "met"
	}
	if v.byCPU {
		word += " (by CPU)"
	}
	return word
}

// judgeRatios decides by the median of the ratios, or, where they scatter, by the CPU
// time per request: it may be as many times the base's as the p50 may, or as many
// times as the rate may be below the base's.
func (t target) judgeRatios(p50, rate, cpu spread) verdict {
	atMost, ratio := t.p50, p50
	if t.rate > 0 {
		atMost, ratio = 1/t.rate, spread{1 / rate.q3, 1 / rate.median, 1 / rate.q1}
	}
	byCPU := ratio.relativeSpread() > maxScatter
	if byCPU {
		ratio = cpu
	}
	return verdict{met: ratio.median <= atMost*(1+tolerance), byCPU: byCPU}
}
