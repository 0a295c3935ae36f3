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
	againstRounds = 40 // a multiple of balancedRounds
	againstTurns  = 4  // of each in a round
	againstWindow = 150 * time.Millisecond
	againstTarget = 1.01 // times the other checkout's
	againstRest   = 5    // daemons of each that rest
	againstMemory = 1    // MB that daemons that rest, and that nobody watches, may have more than the other's
)

// balancedRounds is how many rounds balance who starts first.
const balancedRounds = 4

// againstCells are the loads of the targets that acpd has against the floor.
var againstCells = []cell{{200, 1}, {200, 16}, {1024, 64}, {61440, 1}}

// benchAgainst measures what daemons of this checkout cost against those of another one, which carry
// the same load in turn. Both take part twice. The other's two run the same program, so what differs
// between them shows how much is chance.
func benchAgainst(ctx context.Context, args []string, to *report, log io.Writer) error {
	fs := flag.NewFlagSet("bench against", flag.ExitOnError)
	rounds := fs.Int("rounds", againstRounds, fmt.Sprintf("`number` of rounds, a multiple of %d", balancedRounds))
	fs.Parse(args)
	if fs.NArg() != 1 || *rounds < 1 || *rounds%balancedRounds != 0 {
		return fmt.Errorf("against: name the folder of another checkout, and a number of rounds that is a multiple of %d: bench against [-rounds N] FOLDER", balancedRounds)
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

// againstRatios are what is compared. Each is below 1 where s is better than the other.
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

// orderStarts returns whose daemons start in which order. One checkout's start first and last, and in
// the next round the other's: in some runs those that started first were faster.
func orderStarts(other variant, round int) []variant {
	if round%2 == 0 {
		return []variant{other, acpdVariant, acpdVariant, other}
	}
	return []variant{acpdVariant, other, other, acpdVariant}
}

// firstTurns returns the round for [orderTurns] in which one checkout's fleets, as they were started, have the first and
// the last turn.
func firstTurns(round int) int { return round &^ 1 }

// measureAgainstRound starts each checkout's daemons twice. Each time round the turns gives a value:
// a machine that others disturb for a moment spoils that one alone.
func measureAgainstRound(f *fleet, other variant, round, turns int, window time.Duration, figures []figure, log io.Writer) (err error) {
	order := orderStarts(other, round)
	fleets, err := startTogether(f, order)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopTogether(fleets)) }()
	for i, c := range againstCells {
		taken, err := listTurns(fleets, c, turns, firstTurns(round), window)
		if err != nil {
			return err
		}
		fmt.Fprintf(log, "  round %d, %d bytes, %d at a time:", round+1, c.size, c.conc)
		for j, r := range againstRatios {
			to := figures[2*(i*len(againstRatios)+j):]
			for _, all := range taken {
				mean, control := r.compare(order, all, round)
				to[0].add(mean)
				to[1].add(control)
				fmt.Fprintf(log, " %.3f (other %.3f)", mean, control)
			}
			fmt.Fprintf(log, " %s;", r.what)
		}
		fmt.Fprintln(log)
	}
	return nil
}

// compare returns the quotient of this checkout and the other, as the geometric mean of both fleets of
// each, and as control that of the other's two. Rounds take turns in which of these two is divided by
// which, so that who started first cancels out.
func (r againstRatio) compare(order []variant, all []turn, round int) (mean, control float64) {
	var this, others []sample
	for i, t := range all {
		if order[i].source == acpdVariant.source {
			this = append(this, t.toSample())
		} else {
			others = append(others, t.toSample())
		}
	}
	if round%balancedRounds >= balancedRounds/2 {
		slices.Reverse(others)
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
