package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/pace"
)

const (
	tailRate   = 5000 // queries a second, each of which is an entry at either daemon
	tailRounds = 9
	tailTurns  = 8 // of each pair of daemons in a round
	tailWindow = metricsWindow
	tailRest   = 5 // daemons that are watched, and as many that are not, whose memory is looked at

	tailTarget    = 1.10 // times the CPU for a message without a tail
	stalledTarget = .97  // times the throughput without one
)

// tailCells are the loads at which a tail that keeps up is measured, and those at which one that stalls is.
var (
	tailCells    = []cell{{200, 16}}
	stalledCells = []cell{{200, 16}, {16384, 16}}
)

// Roles that watch a daemon, and one that does not.
const (
	roleTail      = "tail"      // reads on and on, as acpctl tail does
	roleStalled   = "stalled"   // reads once
	roleConnected = "connected" // is just there, after a call as large
)

// tailVariant is acpdVariant with daemons that are both watched by a role; "": by none.
func tailVariant(watcher string) variant {
	v := acpdVariant
	v.start = func(f *fleet) error {
		near, far, err := f.spawnPair()
		if err != nil {
			return err
		}
		if _, err := f.spawnRole("answerer", far.socketPath()); err != nil {
			return err
		}
		for _, h := range []home{near, far} {
			if watcher == "" {
				break
			}
			if _, err := f.spawnRole(watcher, h.socketPath()); err != nil {
				return err
			}
		}
		_, err = f.spawnRole("asker", near.socketPath())
		return err
	}
	return v
}

// serveTail watches a daemon and reads what passes, until it ends.
func serveTail(args []string) error {
	daemon := client.Client{Socket: args[0]}
	p := &client.TrafficParams{}
	for ready := false; ; ready = true {
		a, err := daemon.Traffic(context.Background(), p)
		if err != nil {
			return err
		}
		if a.Lost > 0 {
			return fmt.Errorf("the tail does not keep up: it lost %d entries", a.Lost)
		}
		if p.After, p.WaitMS = a.Next, uint64(client.MaxTrafficWait.Milliseconds()); !ready {
			printReady("")
		}
	}
}

// serveStalledTail watches a daemon and reads nothing, until the process ends.
func serveStalledTail(args []string) error {
	daemon := client.Client{Socket: args[0]}
	if _, err := daemon.Traffic(context.Background(), &client.TrafficParams{}); err != nil {
		return err
	}
	printReady("")
	select {}
}

// serveConnection asks a daemon something else, and stays connected until the process ends.
func serveConnection(args []string) error {
	daemon := client.Client{Socket: args[0]}
	if _, err := daemon.Status(context.Background()); err != nil {
		return err
	}
	printReady("")
	select {}
}

// benchTail measures what those who watch cost the daemons: CPU for a message if they keep up, throughput
// if they stall, and memory while nothing passes.
func benchTail(ctx context.Context, to *report, log io.Writer) error {
	return measureParts(ctx, acpdVariant, to, log,
		part{"CPU for a message with a tail that keeps up", func(f *fleet) ([]figure, error) { return measureTail(f, log) }},
		part{"throughput with a tail that stalls", func(f *fleet) ([]figure, error) { return measureStalledTail(f, log) }},
		part{"rest", func(f *fleet) ([]figure, error) { return measureTailMemory(f, log) }})
}

// measureTail has daemons with and without a tail carry the same load in turn, at one pace, and compares the
// CPU time that they spend on a message.
func measureTail(f *fleet, log io.Writer) ([]figure, error) {
	var figures []figure
	for _, c := range tailCells {
		figures = append(figures,
			figure{what: fmt.Sprintf("daemons' CPU for a query of %d bytes, %d a second: with a tail at both / without", c.size, tailRate), unit: "times", target: tailTarget, strict: true},
			figure{what: "– queries a second that were reached", unit: "/s"})
	}
	for round := range tailRounds {
		err := compareTurns(f, roleTail, tailRate, tailCells, round, func(i int, without, with sample) {
			fmt.Fprintf(log, "  round %d, %d bytes: %.2f µs without at %.0f/s, %.2f µs with a tail at %.0f/s: %.3f\n", round+1, tailCells[i].size, without.cpu, without.rate, with.cpu, with.rate, with.cpu/without.cpu)
			figures[2*i].values = append(figures[2*i].values, with.cpu/without.cpu)
			figures[2*i+1].values = append(figures[2*i+1].values, with.rate)
		})
		if err != nil {
			return nil, err
		}
	}
	return figures, nil
}

// measureStalledTail has daemons with and without a tail that reads nothing carry as much as they can in
// turn.
func measureStalledTail(f *fleet, log io.Writer) ([]figure, error) {
	figures := make([]figure, len(stalledCells))
	for i, c := range stalledCells {
		figures[i] = figure{what: fmt.Sprintf("queries of %d bytes a second, %d at a time: with a stalled tail at both / without", c.size, c.conc), unit: "times", target: stalledTarget, high: true, strict: true}
	}
	for round := range tailRounds {
		err := compareTurns(f, roleStalled, 0, stalledCells, round, func(i int, without, with sample) {
			fmt.Fprintf(log, "  round %d, %d bytes: %.0f/s without, %.0f/s with a stalled tail: %.3f\n", round+1, stalledCells[i].size, without.rate, with.rate, with.rate/without.rate)
			figures[i].values = append(figures[i].values, with.rate/without.rate)
		})
		if err != nil {
			return nil, err
		}
	}
	return figures, nil
}

// compareTurns starts daemons that nobody watches and others that a role watches, loads them in turn with
// each cell at a rate, and calls take with the samples of both.
func compareTurns(f *fleet, watcher string, rate int, cells []cell, round int, take func(i int, without, with sample)) (err error) {
	both, err := startTogether(f, []variant{tailVariant(""), tailVariant(watcher)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopTogether(both)) }()
	for _, one := range both {
		one.rate = rate
	}
	for i, c := range cells {
		samples, err := takeTurns(both, c, tailTurns, round, tailWindow)
		if err != nil {
			return err
		}
		take(i, samples[0], samples[1])
	}
	return nil
}

// measureTailMemory looks at daemons that rest, some of which are watched.
func measureTailMemory(f *fleet, log io.Writer) ([]figure, error) {
	var off, on memoryGroup
	plain := func(home) error { return nil }
	for range tailRest {
		for _, group := range []*memoryGroup{&off, &on} {
			if err := group.spawn(f, plain); err != nil {
				return nil, err
			}
		}
	}
	// The first call makes what all calls need: so each gets one.
	for i := range tailRest {
		for _, one := range []struct {
			home home
			role string
		}{{off.homes[i], roleConnected}, {on.homes[i], roleTail}} {
			if _, err := one.home.awaitWhoami(f.ctx); err != nil {
				return nil, err
			}
			if _, err := f.spawnRole(one.role, one.home.socketPath()); err != nil {
				return nil, err
			}
		}
	}
	if err := pace.Sleep(f.ctx, idleTime); err != nil {
		return nil, err
	}
	// Its own memory: which pages of the program are mapped differs by megabytes from one start to the next.
	without, err := off.measure(anonymousMemory, fmt.Sprintf("own memory of acpd to which somebody is connected, %v after ready", idleTime))
	if err != nil {
		return nil, err
	}
	with, err := on.measure(anonymousMemory, "own memory of acpd that a tail watches")
	if err != nil {
		return nil, err
	}
	for _, one := range []figure{without, with} {
		fmt.Fprintf(log, "  %s: %.2f MB\n", one.what, one.values)
	}
	more := max(summarizeValues(with.values).median-summarizeValues(without.values).median, 0)
	return []figure{without, with, {what: "– with a tail more than without", unit: "MB", target: 1, values: []float64{more}}}, nil
}
