package main

import (
	"errors"
	"slices"
	"time"
)

// startTogether starts a fleet of each variant, with the programs of f; the caller stops them.
func startTogether(f *fleet, all []variant) (fleets []*fleet, err error) {
	for _, v := range all {
		one, err := startFleet(f.ctx, v, f.bin)
		if err != nil {
			return nil, errors.Join(err, stopTogether(fleets))
		}
		fleets = append(fleets, one)
	}
	return fleets, nil
}

func stopTogether(fleets []*fleet) error {
	var errs []error
	for _, f := range fleets {
		errs = append(errs, f.stopAll())
	}
	return errors.Join(errs...)
}

// A turn is what one load of a cell gave, and the CPU time that processes of the fleet spent on it.
type turn struct {
	result
	cpu time.Duration
}

func (t turn) toSample() sample { return t.result.toSample(t.cpu) }

// takeTurns loads the fleets with c in short turns, and returns a sample of each: the medians of
// its turns' percentiles, its requests a second, and the CPU time of its daemons for one.
func takeTurns(fleets []*fleet, c cell, turns, round int, window time.Duration) ([]sample, error) {
	taken, err := listTurns(fleets, c, turns, round, window)
	if err != nil {
		return nil, err
	}
	samples := make([]sample, len(fleets))
	for i := range fleets {
		var sum turn
		var p50, p99 []float64
		for _, all := range taken {
			t := all[i]
			p50, p99 = append(p50, toMicros(t.p50)), append(p99, toMicros(t.p99))
			sum.requests, sum.elapsed, sum.cpu = sum.requests+t.requests, sum.elapsed+t.elapsed, sum.cpu+t.cpu
		}
		samples[i] = sum.toSample()
		samples[i].p50, samples[i].p99 = summarizeValues(p50).median, summarizeValues(p99).median
	}
	return samples, nil
}

// orderTurns returns which of count fleets has which turn, the n-th time round. Every second time the turns go the
// other way, so that what drifts within them disturbs all alike; round moves on who is first.
func orderTurns(count, n, round int) (order []int) {
	for i := range count {
		order = append(order, (i+round)%count)
	}
	if n%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// listTurns loads the fleets with c in short turns, after a turn of each as warm-up, and returns of
// each time round the turn of each fleet.
func listTurns(fleets []*fleet, c cell, turns, round int, window time.Duration) (taken [][]turn, err error) {
	for _, f := range fleets {
		if _, err := f.loadCell(c, window); err != nil {
			return nil, err
		}
	}
	for n := range turns {
		all := make([]turn, len(fleets))
		for _, which := range orderTurns(len(fleets), n, round) {
			if all[which], err = fleets[which].takeTurn(c, window, fleets[which].sumDaemonCPU); err != nil {
				return nil, err
			}
		}
		taken = append(taken, all)
	}
	return taken, nil
}

// takeTurn loads the fleet with c for the given time; sum counts CPU time.
func (f *fleet) takeTurn(c cell, window time.Duration, sum func() (time.Duration, error)) (turn, error) {
	before, err := sum()
	if err != nil {
		return turn{}, err
	}
	r, err := f.loadCell(c, window)
	if err != nil {
		return turn{}, err
	}
	after, err := sum()
	return turn{r, after - before}, err
}

// sumDaemonCPU returns the CPU time that the daemons of the fleet have spent so far.
func (f *fleet) sumDaemonCPU() (sum time.Duration, err error) {
	for _, p := range f.procs {
		if p.stdin != nil { // a role
			continue
		}
		d, err := cpuTime(p.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}
