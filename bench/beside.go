package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

const besidePart = "beside"

// A measure is one of the figures that a cell gives.
type measure struct {
	cell cell
	what string
	unit string
	pick func(sample) float64
}

func pickP50(s sample) float64  { return s.p50 }
func pickRate(s sample) float64 { return s.rate }
func pickCPU(s sample) float64  { return s.cpu }

var (
	oneSmall   = cell{200, 1}
	manySmall  = cell{200, 16}
	oneLarge   = cell{60 << 10, 1}
	medianTime = "median time"
)

var besideMeasures = []measure{
	{oneSmall, medianTime, "ms", pickP50},
	{manySmall, "requests", "/s", pickRate},
	{manySmall, "CPU of all processes for a request", "µs", pickCPU},
	{oneLarge, medianTime, "ms", pickP50},
}

// measureBeside measures all variants side by side. Each round has new processes.
func measureBeside(ctx context.Context, rounds int, window time.Duration) ([]figure, error) {
	bin, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(bin)
	if err := buildDaemon(ctx, "..", bin); err != nil {
		return nil, err
	}
	if err := buildServer(ctx, bin); err != nil {
		return nil, err
	}
	var figures []figure
	for _, m := range besideMeasures {
		for _, v := range variants {
			figures = append(figures, figure{group: fmt.Sprintf("%s: %s", m.cell, m.what), what: v.name, unit: m.unit})
		}
	}
	for round := range rounds {
		if err := measureBesideRound(ctx, bin, round, window, figures); err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "round %d of %d is done\n", round+1, rounds)
	}
	return figures, nil
}

// measureBesideRound adds a value to each figure. The variants take turns cell by cell; which of them is first
// moves on with each round.
func measureBesideRound(ctx context.Context, bin string, round int, window time.Duration, figures []figure) (err error) {
	fleets, err := startFleets(ctx, variants, bin)
	if err != nil {
		return err
	}
	defer stopFleets(fleets, &err)
	samples := map[cell][]sample{}
	for _, m := range besideMeasures {
		if samples[m.cell] == nil {
			if samples[m.cell], err = takeTurns(fleets, m.cell, round, window); err != nil {
				return err
			}
		}
	}
	for i, m := range besideMeasures {
		for j, s := range samples[m.cell] {
			figures[i*len(variants)+j].add(m.pick(s))
		}
	}
	return nil
}

// takeTurns loads each fleet with a cell, after a warm-up, and counts the CPU time of all its processes.
func takeTurns(fleets []*fleet, c cell, first int, window time.Duration) ([]sample, error) {
	samples := make([]sample, len(fleets))
	for i := range fleets {
		which := (first + i) % len(fleets)
		f := fleets[which]
		if _, err := f.loadCell(c, window/5); err != nil {
			return nil, err
		}
		s, err := f.runCell(c, window, f.procs)
		if err != nil {
			return nil, err
		}
		samples[which] = s
	}
	return samples, nil
}
