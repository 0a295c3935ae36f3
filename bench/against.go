package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"
)

const (
	againstTurns  = 4 // of each checkout and cell, in a round
	againstWindow = 150 * time.Millisecond
)

// againstCells are the loads by which two checkouts are compared.
var againstCells = []cell{oneSmall, manySmall, {1 << 10, 64}, oneLarge}

// compareCheckouts has daemons of this checkout and of another one carry the same load in turn, and prints the
// smallest CPU time for a request of each: what disturbs the machine only adds to it.
func compareCheckouts(ctx context.Context, folder string, rounds int, window time.Duration, out io.Writer) error {
	bins := make([]string, 2)
	for i, checkout := range []string{"..", folder} {
		bin, err := os.MkdirTemp("", "bench")
		if err != nil {
			return err
		}
		defer os.RemoveAll(bin)
		if err := buildDaemon(ctx, checkout, bin); err != nil {
			return err
		}
		bins[i] = bin
	}
	least := make([][2]float64, len(againstCells))
	for i := range least {
		least[i] = [2]float64{math.Inf(1), math.Inf(1)}
	}
	for round := range rounds {
		if err := compareRound(ctx, bins, round, window, least); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "round %d of %d is done\n", round+1, rounds)
	}
	fmt.Fprintf(out, "Daemons' CPU for a query in µs, the smallest of %d turns each.\n\n", rounds*againstTurns)
	fmt.Fprintf(out, "| load | this | %s | this / other |\n| --- | ---: | ---: | ---: |\n", filepath.Base(folder))
	for i, c := range againstCells {
		this, other := least[i][0], least[i][1]
		fmt.Fprintf(out, "| %s | %.1f | %.1f | %.3f |\n", c, this, other, this/other)
	}
	return nil
}

// compareRound starts daemons of both checkouts, and has least keep the smallest CPU time of each. Which checkout
// is first changes from round to round, and from turn to turn.
func compareRound(ctx context.Context, bins []string, round int, window time.Duration, least [][2]float64) (err error) {
	fleets := make([]*fleet, len(bins))
	var started []*fleet
	defer func() { stopFleets(started, &err) }()
	for i := range bins {
		which := (round + i) % len(bins)
		if fleets[which], err = startFleet(ctx, acpdVariant, bins[which]); err != nil {
			return err
		}
		started = append(started, fleets[which])
	}
	for i, c := range againstCells {
		for _, f := range fleets {
			if _, err := f.loadCell(c, window); err != nil { // warm-up
				return err
			}
		}
		for turn := range againstTurns * len(fleets) {
			which := (round + turn + turn/len(fleets)) % len(fleets)
			s, err := fleets[which].runCell(c, window, fleets[which].listDaemons())
			if err != nil {
				return err
			}
			least[i][which] = min(least[i][which], s.cpu)
		}
	}
	return nil
}
