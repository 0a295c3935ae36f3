// Command bench measures acpd. It answers two questions:
//
//	bench beside           how does it compare with what people would use instead?
//	bench growth           how does its cost grow, with peers, agents, bytes, and what a daemon holds?
//
// Both print a table. With -record they also keep every value, as a record in ../docs/benchmarks.
//
//	bench draw             draws the plots and tables of docs/benchmarks.md from these records
//	bench against FOLDER   compares the CPU time of this checkout's daemons with that of another checkout's
//	bench pgo              writes ../cmd/acpd/default.pgo, a profile by which the compiler optimises acpd
//
// All that is measured are real processes on this machine, joined by loopback and unix sockets. This
// binary executes itself for those that are not daemons or servers. The variants take turns, so that a
// disturbance of the machine affects all alike. It needs Linux, where a process can read the CPU time
// of another.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const defaultRounds = 7

func main() {
	if len(os.Args) > 3 && os.Args[1] == roleWord {
		os.Exit(runRole(os.Args[2], os.Args[3], os.Args[4:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runCommand(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("give a part: beside, growth, draw, against FOLDER or pgo; beside and growth take -record, and with against -rounds N")

// runCommand runs the part that args begin with.
func runCommand(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet("bench "+args[0], flag.ContinueOnError)
	keep := flags.Bool("record", false, "keep all values as a record")
	rounds := flags.Int("rounds", defaultRounds, "`number` of rounds")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if *rounds < 1 {
		return fmt.Errorf("-rounds %d: give 1 or more", *rounds)
	}
	switch part := args[0]; {
	case part == besidePart && flags.NArg() == 0:
		figures, err := measureBeside(ctx, *rounds, cellWindow)
		return reportFigures(part, figures, *keep, err)
	case part == growthPart && flags.NArg() == 0:
		figures, err := measureGrowth(ctx, quantities, *rounds, cellWindow, restTime)
		return reportFigures(part, figures, *keep, err)
	case part == "against" && flags.NArg() == 1:
		return compareCheckouts(ctx, flags.Arg(0), *rounds, againstWindow, os.Stdout)
	case part == "pgo" && flags.NArg() == 0:
		return writeProfile(ctx, defaultPGO, runProfiledLoad)
	case part == "draw" && flags.NArg() == 0:
		return drawRecords(recordFolder, recordPage)
	}
	return errUsage
}

// reportFigures prints what was measured, and records it if it is to be kept.
func reportFigures(part string, figures []figure, keep bool, err error) error {
	if err != nil {
		return err
	}
	fmt.Print(formatTable(figures))
	if !keep {
		return nil
	}
	r, err := newRecord(figures)
	if err != nil {
		return err
	}
	return r.save(recordPath(recordFolder, part))
}
