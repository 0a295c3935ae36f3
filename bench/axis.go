package main

import (
	"math"
	"strconv"
	"strings"
)

// axisTicks is about how many steps an axis has.
const axisTicks = 4

// An axis is the scale of some figures. It begins at 0, or contains it, so that lengths can be
// compared.
type axis struct {
	low, high, step float64
	change          bool // values are percent more than what they are compared with
}

// newAxis makes the axis that holds the dots, quartiles and targets of the figures.
func newAxis(figures []figure) axis {
	a := axis{change: figures[0].change}
	for _, f := range figures {
		middle := summarizeValues(f.values)
		values := append(f.listDots(), middle.q1, middle.q3)
		if f.target > 0 {
			values = append(values, f.target)
		}
		for _, v := range values {
			a.low, a.high = min(a.low, a.scale(v)), max(a.high, a.scale(v))
		}
	}
	if a.low == a.high {
		a.high = 1
	}
	a.step = roundStep((a.high - a.low) / axisTicks)
	a.low, a.high = math.Floor(a.low/a.step)*a.step, math.Ceil(a.high/a.step)*a.step
	return a
}

// scale turns a figure's value into one of the axis.
func (a axis) scale(value float64) float64 {
	if a.change {
		return (value - 1) * 100
	}
	return value
}

// place returns where a figure's value lies: 0 at the low end and 1 at the high one.
func (a axis) place(value float64) float64 { return (a.scale(value) - a.low) / (a.high - a.low) }

// listTicks lists the steps from end to end, as values of the axis.
func (a axis) listTicks() []float64 {
	var ticks []float64
	for i := range int(math.Round((a.high-a.low)/a.step)) + 1 {
		ticks = append(ticks, a.low+float64(i)*a.step)
	}
	return ticks
}

// formatTick writes a step of the axis.
func (a axis) formatTick(tick float64) string {
	decimals := 0
	for scaled := a.step; math.Abs(scaled-math.Round(scaled)) > 1e-6; scaled *= 10 {
		decimals++
	}
	return a.sign(strconv.FormatFloat(tick, 'f', decimals, 64), tick)
}

// formatValue writes a figure's value with three digits that count.
func (a axis) formatValue(value float64) string {
	value = a.scale(value)
	if a.change {
		return a.sign(strconv.FormatFloat(value, 'f', 1, 64), value) + " %"
	}
	digits := 0
	if value != 0 {
		digits = max(0, 2-int(math.Floor(math.Log10(math.Abs(value)))))
	}
	return a.sign(strconv.FormatFloat(value, 'f', digits, 64), value)
}

// formatTarget is the target with its sign, in terms of the axis.
func (a axis) formatTarget(f figure) string {
	if !a.change {
		return f.formatTarget()
	}
	sign, _, _ := strings.Cut(f.formatTarget(), " ")
	percent := a.scale(f.target)
	return sign + " " + a.sign(strconv.FormatFloat(percent, 'g', 3, 64), percent) + " %"
}

// sign writes a minus as long as a plus, and a plus before what is more.
func (a axis) sign(text string, value float64) string {
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		if strings.Trim(rest, "0.") == "" {
			return rest
		}
		return "−" + rest
	}
	if a.change && value > 0 && strings.Trim(text, "0.") != "" {
		return "+" + text
	}
	return text
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
