package main

import (
	"errors"
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

// takeTurns loads the fleets with c in short turns, after a turn of each as warm-up, and returns a
// sample of each: the medians of its turns' percentiles, its requests a second, and the CPU time of
// its daemons for one. Every second time round the turns go the other way, so that what drifts
// within them disturbs all alike; round moves on who is first.
func takeTurns(fleets []*fleet, c cell, turns, round int, window time.Duration) ([]sample, error) {
	for _, f := range fleets {
		if _, err := f.loadCell(c, window); err != nil {
			return nil, err
		}
	}
	type total struct {
		p50, p99     []float64
		requests     int
		elapsed, cpu time.Duration
	}
	totals := make([]total, len(fleets))
	for turn := range turns {
		for i := range fleets {
			if turn%2 == 1 {
				i = len(fleets) - 1 - i
			}
			which := (i + round) % len(fleets)
			f, t := fleets[which], &totals[which]
			before, err := f.sumDaemonCPU()
			if err != nil {
				return nil, err
			}
			res, err := f.loadCell(c, window)
			if err != nil {
				return nil, err
			}
			after, err := f.sumDaemonCPU()
			if err != nil {
				return nil, err
			}
			t.p50, t.p99 = append(t.p50, toMicros(res.p50)), append(t.p99, toMicros(res.p99))
			t.requests, t.elapsed, t.cpu = t.requests+res.requests, t.elapsed+res.elapsed, t.cpu+after-before
		}
	}
	samples := make([]sample, len(fleets))
	for i, t := range totals {
		samples[i] = result{requests: t.requests, elapsed: t.elapsed}.toSample(t.cpu)
		samples[i].p50, samples[i].p99 = summarizeValues(t.p50).median, summarizeValues(t.p99).median
	}
	return samples, nil
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
