package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
)

// A role is what one process of a variant does; exactly one field is set.
// A role ends when its standard input does: so none outlives the parent.
type role struct {
	// serve answers requests until its connection ends. It calls announce once
	// it can be reached.
	serve func(args []string) error
	// connect prepares the process that drives the load.
	connect func(args []string) (newCall, error)
	// obey prepares a process that answers each line of its standard input with one, and
	// calls end after the last.
	obey func(args []string) (answer func(order string) (string, error), end func(), err error)
}

// runRole is main for a child process; it returns the exit status.
func runRole(variantName, roleName string, args []string) int {
	err := func() error {
		all := slices.Concat(variants, []variant{idleVariant, besideVariant, newBeforeVariant(""), newNATSVariant("")})
		i := slices.IndexFunc(all, func(v variant) bool { return v.name == variantName })
		if i < 0 {
			return fmt.Errorf("unknown variant")
		}
		r, ok := all[i].roles[roleName]
		switch {
		case !ok:
			return fmt.Errorf("unknown role")
		case r.serve != nil:
			go func() { // ends with the process
				io.Copy(io.Discard, os.Stdin)
				os.Exit(0)
			}()
			return r.serve(args)
		case r.obey != nil:
			answer, end, err := r.obey(args)
			if err != nil {
				return err
			}
			defer end()
			printReady("")
			return answerOrders(os.Stdin, os.Stdout, answer)
		default:
			call, err := r.connect(args)
			if err != nil {
				return err
			}
			printReady("")
			return driveLoad(os.Stdin, os.Stdout, call)
		}
	}()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %s %s: %v\n", variantName, roleName, err)
		return 1
	}
	return 0
}

// answerOrders answers each line of in with one on out, until in ends.
func answerOrders(in io.Reader, out io.Writer, answer func(string) (string, error)) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		text, err := answer(lines.Text())
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, text); err != nil {
			return err
		}
	}
	return lines.Err()
}

// printReady tells the parent that this process is ready, and where it listens if
// the kernel chose that.
func printReady(addr string) {
	fmt.Println(readyWord, addr)
}

const readyWord = "ready"
