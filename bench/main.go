// Command bench measures how fast a message travels, and holds the figures
// against the project's targets.
//
// A variant is one way for a request to travel from the program that asks to
// the one that answers, and back. Each variant is a set of real processes on
// this machine, joined by loopback and unix sockets; this binary executes itself
// again for each of them. All variants of a round run side by side and take turns
// cell by cell (a cell is one payload size at one concurrency), in an order that
// rotates, so that what disturbs the machine disturbs them alike. Ratios are
// taken within a round and only then summarised.
//
// What is measured: the time from before a request is sent until its echo has
// been read and compared; requests per second; and the CPU time, user and system,
// that all processes of the variant spent, divided by the requests. Nothing here
// measures a network: loopback neither loses nor delays.
//
// With -before, the daemons of another checkout take part as the variant before, and the
// ratio acpd / before tells what a change costs. Two runs cannot tell that: machines
// change their speed from minute to minute.
//
// The subcommand idle measures what is not about requests: how quickly a daemon
// starts, what it costs while it has nothing to do, alone and with a thousand peers
// connected, how long a ping takes as a command, and a burst of 10,000 messages.
//
// The subcommand oacp measures mail: how fast it is carried, against a loop that
// copies the same files as durably, and what watching inboxes costs.
//
// The subcommand channels measures OpenIntent's channels over HTTP: messages, asks,
// lists and event streams, and what a daemon holds in memory for them. The subcommand
// sdk, with the virtual environment of make interop (../.interop/openintent), has the
// published SDK do so over TCP, with acpd and with OpenIntent's reference server.
//
// The subcommand mcp measures what the tools of acpctl mcp cost over package client, how much
// memory and time to start the process takes, how soon a notification wakes a session, and how
// much memory a daemon takes for sessions. The program that is woken is this one: what a real
// one adds is measured by make agents.
//
// The subcommand inside measures for how long each of the largest inputs of a peer's
// agents holds up the daemon's other writes.
//
// The subcommand beside measures how much later a peer's calls are answered while
// another trusted peer does as much of something as it can: of what its arguments name,
// or of everything.
//
// The subcommand metrics measures what metrics cost the daemons that serve them: CPU time for a
// message, against daemons that serve none and carry the same load in turn, and memory.
//
// The subcommand tail measures what it costs daemons to be watched: CPU time for a message with a tail that
// keeps up, throughput with one that stalls, and memory.
//
// The subcommand relay measures calls over a relay, a NATS server of its own process, beside the same
// calls over UDP and beside the server's bare echo, and what a relay costs a daemon that rests.
//
// The subcommand against, with the folder of another checkout, measures whether calls, CPU and memory
// have become worse than there, closely enough for a percent: in short turns, with the daemons of
// both twice and started in turn. How far the other's two differ is said too.
//
// The subcommand pgo measures nothing: it writes ../cmd/acpd/default.pgo, a profile of
// the daemons under such loads, by which the compiler optimises acpd.
//
// With -record FILE.json before the rest of the line, a run also keeps every value of its figures, with
// the versions of what took part; of the variants, those ratios that have a target.
//
// The subcommand draw measures nothing either: of the records in ../docs/benchmarks it makes the
// plots there, and the tables in ../docs/benchmarks.md.
//
// The tables go to standard output as Markdown, progress to standard error.
// It needs Linux, whose kernel tells one process the CPU time of another.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// variants lists what can be measured, each after the one it is compared with.
var variants = []variant{quicVariant, nodeVariant, floorVariant, acpdVariant}

func main() {
	if len(os.Args) > 3 && os.Args[1] == "role" {
		os.Exit(runRole(os.Args[2], os.Args[3], os.Args[4:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := runCommand(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// partsAlone are the subcommands without arguments.
var partsAlone = map[string]func(context.Context, *report, io.Writer) error{
	"idle": benchIdle, "oacp": benchOACP, "channels": benchChannels, "inside": benchInside, "mcp": benchMCP, "metrics": benchMetrics,
	"relay": benchRelay,
}

// runCommand runs the subcommand that args name, or measures the variants.
func runCommand(ctx context.Context, args []string) error {
	to := &report{out: os.Stdout}
	if len(args) >= 2 && args[0] == "-record" {
		to.file, args = args[1], args[2:]
		if _, err := os.Stat(filepath.Dir(to.file)); err != nil { // before the time is spent
			return fmt.Errorf("-record: %w: name a file in a folder that is there", err)
		}
	}
	to.command = strings.Join(args, " ")
	switch {
	case len(args) == 1 && partsAlone[args[0]] != nil:
		return partsAlone[args[0]](ctx, to, os.Stderr)
	case len(args) >= 1 && args[0] == "beside":
		return benchBeside(ctx, args[1:], to, os.Stderr)
	case len(args) == 1 && args[0] == "draw":
		return drawRecords(recordFolder, recordPage)
	case len(args) == 1 && args[0] == "pgo":
		return writeProfile(ctx, defaultPGO, os.Stderr, runProfiledLoad)
	case len(args) == 2 && args[0] == "sdk":
		return benchSDK(ctx, args[1], to, os.Stderr)
	case len(args) >= 1 && args[0] == "tail":
		return benchTail(ctx, args[1:], to, os.Stderr)
	case len(args) >= 1 && args[0] == "against":
		return benchAgainst(ctx, args[1:], to, os.Stderr)
	}
	return benchVariants(ctx, args, to)
}

func benchVariants(ctx context.Context, args []string, to *report) error {
	fs := flag.NewFlagSet("bench", flag.ExitOnError)
	var (
		_      = fs.String("record", "", "the first flag of a line, with or without a part: keep all figures in `FILE.json`")
		quick  = fs.Bool("quick", false, "3 rounds of 300ms windows instead of 9 of 1s, where not said otherwise")
		rounds = fs.Int("rounds", 9, "`number` of rounds")
		window = fs.Duration("window", time.Second, "`duration` of one cell in one round, after a fifth of it as warm-up")
		sizes  = fs.String("sizes", "200,1024,16384,61440", "payload sizes in `bytes`")
		conc   = fs.String("conc", "1,16,64", "`numbers` of requests in flight")
		names  = fs.String("variants", listVariants(), "`variants` to measure")
		source = fs.String("before", "", "another checkout's `folder`: its daemons are measured too, as the variant before")
	)
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "bench [-record FILE.json] [flags] measures the variants. Other parts: %s, beside [LOAD...], sdk VENV, against [-rounds N] FOLDER, tail [-rounds N] [-before FOLDER], pgo, draw.\n", strings.Join(slices.Sorted(maps.Keys(partsAlone)), ", "))
		fs.PrintDefaults()
	}
	fs.Parse(args)
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: see -help", fs.Arg(0))
	}
	if given := fs.Lookup("record").Value.String(); given != "" {
		return fmt.Errorf("-record %s: write it before everything else", given)
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if *quick && !given["rounds"] {
		*rounds = 3
	}
	if *quick && !given["window"] {
		*window = 300 * time.Millisecond
	}
	if *rounds < 1 || *window <= 0 {
		return fmt.Errorf("nothing to measure: -rounds and -window must be positive")
	}
	p := plan{rounds: *rounds, window: *window}
	sizeList, err := parseInts(*sizes, len(questionHead)+1+len(questionTail), 512<<10)
	if err != nil {
		return fmt.Errorf("-sizes: %w", err)
	}
	// The bound keeps all requests within the 100 streams that quic-go allows by default.
	concList, err := parseInts(*conc, 1, maxConc)
	if err != nil {
		return fmt.Errorf("-conc: %w", err)
	}
	for _, size := range sizeList {
		for _, c := range concList {
			p.cells = append(p.cells, cell{size, c})
		}
	}
	for name := range strings.SplitSeq(*names, ",") {
		v, err := findVariant(name)
		if err != nil {
			return err
		}
		p.variants = append(p.variants, v)
	}
	if *source != "" {
		p.variants = append(p.variants, newBeforeVariant(*source))
		to.command = strings.ReplaceAll(to.command, *source, "FOLDER")
		to.versions = map[string]string{"before": describeCommit(*source)}
	}
	m, err := p.runPlan(ctx, os.Stderr)
	if err != nil {
		return err
	}
	if err := m.writeReport(to.out); err != nil {
		return err
	}
	return to.recordFigures(m.listJudged())
}

const maxConc = 64

func parseInts(list string, low, high int) ([]int, error) {
	var out []int
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < low || n > high {
			return nil, fmt.Errorf("%q: give whole numbers from %d to %d, separated by commas", s, low, high)
		}
		out = append(out, n)
	}
	return out, nil
}
