package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// A plan is what one run of the benchmark measures.
type plan struct {
	variants []variant
	cells    []cell
	rounds   int
	window   time.Duration
}

// A key names a series of samples, one per round.
type key struct {
	variant string
	cell    cell
}

// A measurement is a plan with its samples.
type measurement struct {
	plan
	samples map[key][]sample
}

// runPlan runs the plan and writes its progress to log.
func (p plan) runPlan(ctx context.Context, log io.Writer) (*measurement, error) {
	bin, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(bin)
	for _, v := range p.variants {
		if err := buildPrograms(ctx, bin, v); err != nil {
			return nil, err
		}
	}
	m := &measurement{plan: p, samples: map[key][]sample{}}
	began := time.Now()
	for round := range p.rounds {
		err := m.measureRound(ctx, round, bin)
		if ctx.Err() != nil { // and then err says only how the processes took it
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(log, "round %d of %d done after %v\n", round+1, p.rounds, time.Since(began).Round(time.Second))
	}
	return m, nil
}

// measureRound starts every variant afresh and measures every cell once. The variants take
// turns cell by cell; who is first moves on with each cell and each round.
func (m *measurement) measureRound(ctx context.Context, measureRound int, bin string) (err error) {
	fleets := make([]*fleet, len(m.variants))
	defer func() {
		for _, f := range fleets {
			if f != nil {
				err = errors.Join(err, f.stopAll())
			}
		}
	}()
	for i, v := range m.variants {
		if fleets[i], err = startFleet(ctx, v, bin); err != nil {
			return err
		}
	}
	for i, c := range m.cells {
		for j := range fleets {
			f := fleets[(measureRound+i+j)%len(fleets)]
			if _, err := f.runCell(c, m.window/5); err != nil {
				return err
			}
			s, err := f.runCell(c, m.window)
			if err != nil {
				return err
			}
			k := key{f.variant, c}
			m.samples[k] = append(m.samples[k], s)
		}
	}
	return nil
}
