package main

import (
	"math"
	"slices"
	"strconv"
)

// axisTicks is about how many steps an axis has.
const axisTicks = 4

// An axis is the scale of some figures. It begins at 0, so that lengths can be compared.
type axis struct {
	high, step float64
}

// newAxis makes the axis that holds all values of the figures.
func newAxis(figures []figure) axis {
	a := axis{}
	for _, f := range figures {
		a.high = max(a.high, slices.Max(f.values))
	}
	if a.high == 0 {
		a.high = 1
	}
	a.step = roundStep(a.high / axisTicks)
	a.high = math.Ceil(a.high/a.step-1e-9) * a.step
	return a
}

// place returns where a value is: 0 at the low end and 1 at the high one.
func (a axis) place(value float64) float64 { return value / a.high }

// listTicks lists the steps from end to end.
func (a axis) listTicks() (ticks []float64) {
	for i := range int(math.Round(a.high/a.step)) + 1 {
		ticks = append(ticks, float64(i)*a.step)
	}
	return ticks
}

// formatTick writes a step of the axis.
func (a axis) formatTick(tick float64) string {
	decimals := 0
	for scaled := a.step; math.Abs(scaled-math.Round(scaled)) > 1e-6; scaled *= 10 {
		decimals++
	}
	return strconv.FormatFloat(tick, 'f', decimals, 64)
}

// roundStep is the least of 1, 2, 2.5 and 5 times a power of ten that is not below the step.
func roundStep(step float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, factor := range []float64{1, 2, 2.5, 5} {
		if factor*power >= step*(1-1e-9) {
			return factor * power
		}
	}
	return 10 * power
}
