package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/acpd/acpd/client"
)

const (
	tailRate   = 5000 // queries a second, each of which is an entry at either daemon
	tailRounds = 9
	tailTurns  = 8 // of each pair of daemons in a round
	tailWindow = metricsWindow
	tailRest   = 5 // daemons that are watched, and as many that are not, whose memory is looked at

	stalledPause = 3 * time.Second

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
	roleStalled   = "stalled"   // reads an entry now and then, so that it is not taken for one that is gone
	roleConnected = "connected" // is just there, after a call as large
	roleStatus    = "status"    // asks for the status as often as a tail that waits in vain
)

// tailVariant is a variant with daemons that are both watched by a role; "": by none.
func tailVariant(v variant, watcher string) variant {
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

// serveStalledTail watches a daemon, and reads one entry of thousands, until the process ends. The daemon
// would forget one that reads nothing at all for 10 s.
func serveStalledTail(args []string) error {
	daemon := client.Client{Socket: args[0]}
	for p := (&client.TrafficParams{Limit: 1}); ; p.After++ {
		a, err := daemon.Traffic(context.Background(), p)
		if err != nil {
			return err
		}
		if p.After == 0 {
			p.After = a.Next
			printReady("")
		}
		time.Sleep(stalledPause)
	}
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

// serveStatus asks a daemon for its status now and then, until it ends.
func serveStatus(args []string) error {
	daemon := client.Client{Socket: args[0]}
	for ready := false; ; ready = true {
		if _, err := daemon.Status(context.Background()); err != nil {
			return err
		}
		if !ready {
			printReady("")
		}
		time.Sleep(client.MaxTrafficWait)
	}
}

// benchTail measures what those who watch cost the daemons: CPU for a message if they keep up, throughput
// if they stall, and memory while nothing passes.
func benchTail(ctx context.Context, args []string, to *report, log io.Writer) error {
	fs := flag.NewFlagSet("bench tail", flag.ExitOnError)
	rounds := fs.Int("rounds", tailRounds, "`number` of rounds")
	before := fs.String("before", "", "another checkout's `folder`: its daemons are measured too, in the same turns")
	fs.Parse(args)
	if fs.NArg() > 0 || *rounds < 1 {
		return errors.New("tail: it takes no arguments, and at least one round: bench tail [-rounds 9] [-before FOLDER]")
	}
	checkouts := []variant{acpdVariant}
	if *before != "" {
		source, err := filepath.Abs(*before)
		if err != nil {
			return err
		}
		checkouts = append(checkouts, newBeforeVariant(source))
		to.command = fmt.Sprintf("tail -rounds %d -before FOLDER", *rounds)
		to.versions = map[string]string{"before": describeCommit(source)}
	}
	return measureParts(ctx, acpdVariant, to, log,
		part{"CPU for a message with a tail that keeps up", func(f *fleet) ([]figure, error) { return measureTail(f, checkouts, *rounds, log) }},
		part{"throughput with a tail that stalls", func(f *fleet) ([]figure, error) { return measureStalledTail(f, checkouts, *rounds, log) }},
		part{"rest", func(f *fleet) ([]figure, error) { return measureTailMemory(f, log) }})
}

// nameCheckout returns what a figure of a checkout ends with.
func nameCheckout(v variant) string {
	if v.source == "" {
		return ""
	}
	return ", " + v.name
}

// measureTail has daemons with and without a tail carry the same load in turn, at one pace, and compares the
// CPU time that they spend on a message.
func measureTail(f *fleet, checkouts []variant, rounds int, log io.Writer) ([]figure, error) {
	var figures []figure
	for _, c := range tailCells {
		for _, v := range checkouts {
			f := figure{what: fmt.Sprintf("daemons' CPU for a query of %d bytes, %d a second: with a tail at both / without%s", c.size, tailRate, nameCheckout(v)), unit: "times"}
			if v.source == "" {
				f.target, f.strict = tailTarget, true
			}
			figures = append(figures, f, figure{what: "– queries a second that were reached" + nameCheckout(v), unit: "/s"})
		}
	}
	for round := range rounds {
		err := compareTurns(f, checkouts, roleTail, tailRate, tailCells, round, func(i, checkout int, without, with sample) {
			at := 2 * (i*len(checkouts) + checkout)
			fmt.Fprintf(log, "  round %d, %d bytes%s: %.2f µs without at %.0f/s, %.2f µs with a tail at %.0f/s: %.3f\n", round+1, tailCells[i].size, nameCheckout(checkouts[checkout]), without.cpu, without.rate, with.cpu, with.rate, with.cpu/without.cpu)
			figures[at].values = append(figures[at].values, with.cpu/without.cpu)
			figures[at+1].values = append(figures[at+1].values, with.rate)
		})
		if err != nil {
			return nil, err
		}
	}
	return figures, nil
}

// measureStalledTail has daemons with and without a tail that stalls carry as much as they can in turn.
func measureStalledTail(f *fleet, checkouts []variant, rounds int, log io.Writer) ([]figure, error) {
	var figures []figure
	for _, c := range stalledCells {
		for _, v := range checkouts {
			f := figure{what: fmt.Sprintf("queries of %d bytes a second, %d at a time: with a stalled tail at both / without%s", c.size, c.conc, nameCheckout(v)), unit: "times", high: true}
			if v.source == "" {
				f.target, f.strict = stalledTarget, true
			}
			figures = append(figures, f, figure{what: "– daemons' CPU for one" + nameCheckout(v), unit: "times"})
		}
	}
	for round := range rounds {
		err := compareTurns(f, checkouts, roleStalled, 0, stalledCells, round, func(i, checkout int, without, with sample) {
			fmt.Fprintf(log, "  round %d, %d bytes%s: %.0f/s without, %.0f/s with a stalled tail: %.3f; CPU for one %.2f and %.2f µs: %.3f\n", round+1, stalledCells[i].size, nameCheckout(checkouts[checkout]), without.rate, with.rate, with.rate/without.rate, without.cpu, with.cpu, with.cpu/without.cpu)
			at := 2 * (i*len(checkouts) + checkout)
			figures[at].values = append(figures[at].values, with.rate/without.rate)
			figures[at+1].values = append(figures[at+1].values, with.cpu/without.cpu)
		})
		if err != nil {
			return nil, err
		}
	}
	return figures, nil
}

// compareTurns starts daemons that nobody watches and others that a role watches, loads them in turn with
// each cell at a rate, and calls take with the samples of both of each checkout.
func compareTurns(f *fleet, checkouts []variant, watcher string, rate int, cells []cell, round int, take func(i, checkout int, without, with sample)) (err error) {
	var variants []variant
	for _, v := range checkouts {
		if v.source != "" && round == 0 {
			if err := buildPrograms(f.ctx, f.bin, v); err != nil {
				return err
			}
		}
		variants = append(variants, tailVariant(v, ""), tailVariant(v, watcher))
	}
	all, err := startTogether(f, variants)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopTogether(all)) }()
	for _, one := range all {
		one.rate = rate
	}
	for i, c := range cells {
		samples, err := takeTurns(all, c, tailTurns, round, tailWindow)
		if err != nil {
			return err
		}
		for checkout := range checkouts {
			take(i, checkout, samples[2*checkout], samples[2*checkout+1])
		}
	}
	return nil
}
