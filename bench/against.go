package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/acpd/acpd/internal/pace"
)

const (
	againstRounds = 40
	againstTurns  = 4 // of each in a round
	againstWindow = 150 * time.Millisecond
	againstTarget = 1.01 // times the other checkout's
	againstRest   = 5
	againstMemory = 1 // MB that daemons that rest, and that nobody watches, may have more than the other's
)

// againstCells are the loads of the targets that acpd has against the floor.
var againstCells = []cell{{200, 1}, {200, 16}, {1024, 64}, {61440, 1}}

// benchAgainst measures what daemons of this checkout cost against those of another one, which carry
// the same load in turn. Both take part twice. How far the other's two differ is what two daemons
// cannot tell apart.
func benchAgainst(ctx context.Context, args []string, to *report, log io.Writer) error {
	fs := flag.NewFlagSet("bench against", flag.ExitOnError)
	rounds := fs.Int("rounds", againstRounds, "`number` of rounds")
	fs.Parse(args)
	if fs.NArg() != 1 || *rounds < 1 {
		return errors.New("against: name the folder of another checkout, and at least one round: bench against [-rounds 40] FOLDER")
	}
	source, err := filepath.Abs(fs.Arg(0))
	if err != nil {
		return err
	}
	other := newBeforeVariant(source)
	to.command = fmt.Sprintf("against -rounds %d FOLDER", *rounds)
	to.versions = map[string]string{"other": describeCommit(source)}
	return measureParts(ctx, acpdVariant, to, log,
		part{"calls", func(f *fleet) ([]figure, error) {
			return measureAgainst(f, other, *rounds, againstTurns, againstWindow, log)
		}},
		part{"rest", func(f *fleet) ([]figure, error) {
			return measureMemoryAgainst(f, other, againstRest, idleTime, log)
		}})
}

type againstRatio struct {
	what  string
	ratio func(sample, other sample) float64
}

// againstRatios are the quotients that are compared, as they should be low.
var againstRatios = []againstRatio{
	{"p50", func(s, other sample) float64 { return s.p50 / other.p50 }},
	{"time for a request (1 / rate)", func(s, other sample) float64 { return other.rate / s.rate }},
	{"daemons' CPU for a request", func(s, other sample) float64 { return s.cpu / other.cpu }},
}

func measureAgainst(f *fleet, other variant, rounds, turns int, window time.Duration, log io.Writer) ([]figure, error) {
	if err := buildPrograms(f.ctx, f.bin, other); err != nil {
		return nil, err
	}
	var figures []figure
	for _, c := range againstCells {
		for _, r := range againstRatios {
			group := fmt.Sprintf("%d bytes, %d at a time", c.size, c.conc)
			figures = append(figures,
				figure{group: group, what: r.what + ": this / other", unit: "times", target: againstTarget, strict: true, change: true},
				figure{group: group, what: r.what + ": other / other", unit: "times", change: true, control: true})
		}
	}
	for round := range rounds {
		if err := measureAgainstRound(f, other, round, turns, window, figures, log); err != nil {
			return nil, err
		}
	}
	return figures, nil
}

// measureAgainstRound starts each checkout's daemons twice: one's first and last, and the next round
// the other's, as in some runs those that started first were faster. Each time round the turns
// gives a value: a machine that others disturb for a moment spoils that one alone.
func measureAgainstRound(f *fleet, other variant, round, turns int, window time.Duration, figures []figure, log io.Writer) (err error) {
	outer, inner := other, acpdVariant
	if round%2 == 1 {
		outer, inner = inner, outer
	}
	fleets, err := startTogether(f, []variant{outer, inner, inner, outer})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopTogether(fleets)) }()
	for i, c := range againstCells {
		taken, err := listTurns(fleets, c, turns, round, window)
		if err != nil {
			return err
		}
		fmt.Fprintf(log, "  round %d, %d bytes, %d at a time:", round+1, c.size, c.conc)
		for j, r := range againstRatios {
			to := figures[2*(i*len(againstRatios)+j):]
			for _, all := range taken {
				mean, equal := r.compare(all, round)
				to[0].add(mean)
				to[1].add(equal)
				fmt.Fprintf(log, " %.3f (%.3f)", mean, equal)
			}
			fmt.Fprintf(log, " %s;", r.what)
		}
		fmt.Fprintln(log)
	}
	return nil
}

// compare returns the quotient of this checkout's and the other's, as the geometric mean of both fleets
// of each, and that of the other's two fleets.
func (r againstRatio) compare(all []turn, round int) (mean, equal float64) {
	this, others := [2]sample{all[1].toSample(), all[2].toSample()}, [2]sample{all[0].toSample(), all[3].toSample()}
	if round%2 == 1 {
		this, others = others, this
	}
	if round%4 >= 2 {
		slices.Reverse(others[:]) // so that neither of both is always the one that started later
	}
	return math.Sqrt(r.ratio(this[0], others[0]) * r.ratio(this[1], others[1])), r.ratio(others[1], others[0])
}

// measureMemoryAgainst looks at daemons of both checkouts that rest together.
func measureMemoryAgainst(f *fleet, other variant, each int, rest time.Duration, log io.Writer) (figures []figure, err error) {
	if err := buildPrograms(f.ctx, f.bin, other); err != nil {
		return nil, err
	}
	g, err := newFleet(f.ctx, other, f.bin)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.stopAll()) }()
	var here, there memoryGroup
	for range each {
		plain := func(home) error { return nil }
		if err := errors.Join(here.spawn(f, plain), there.spawn(g, plain)); err != nil {
			return nil, err
		}
	}
	if err := pace.Sleep(f.ctx, rest); err != nil {
		return nil, err
	}
	for _, kind := range []struct {
		what   string
		memory func(int) (int64, error)
		target float64
	}{{"memory", residentMemory, againstMemory}, {"own memory", anonymousMemory, 0}} {
		of, err := here.measure(kind.memory, fmt.Sprintf("%s of acpd %v after ready", kind.what, rest))
		if err != nil {
			return nil, err
		}
		others, err := there.measure(kind.memory, kind.what+" of the other")
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(log, "  %s: %.2f MB, other %.2f MB\n", kind.what, of.values, others.values)
		more := figure{what: "– more than the other", unit: "MB", target: kind.target, strict: kind.target > 0}
		more.add(summarizeValues(of.values).median - summarizeValues(others.values).median)
		figures = append(figures, of, others, more)
	}
	return figures, nil
}
