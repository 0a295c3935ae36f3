package main

import (
	"fmt"
	"io"
	"os"
	"slices"
)

// A variant is one way for a request to travel from the process that asks to the one that answers, and
// for the answer to come back.
type variant struct {
	name string
	// start starts the processes, the one that asks last. On an error the caller stops what was started.
	start func(*fleet) error
	// connect prepares the process that asks.
	connect func(args []string) (newCall, error)
	// serve is the process that answers. It calls printReady once it can be reached, and returns when its
	// connection ends.
	serve func(args []string) error
}

// variants lists all, as the plots show them.
var variants = []variant{acpdVariant, grpcVariant, natsVariant, a2aVariant, httpVariant}

// The two roles that this program plays in processes of their own. It ends when its standard input does,
// so none outlives the parent.
const (
	roleWord = "role"
	asker    = "asker"
	answerer = "answerer"
)

// runRole is main for such a process; it returns the exit status.
func runRole(name, role string, args []string) int {
	i := slices.IndexFunc(variants, func(v variant) bool { return v.name == name })
	err := fmt.Errorf("there is no such role")
	if i >= 0 && role == asker {
		err = variants[i].ask(args)
	} else if i >= 0 && role == answerer {
		go func() { // ends with the process
			io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
		err = variants[i].serve(args)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %s %s: %v\n", name, role, err)
		return 1
	}
	return 0
}

func (v variant) ask(args []string) error {
	call, err := v.connect(args)
	if err != nil {
		return err
	}
	printReady("")
	return driveLoad(os.Stdin, os.Stdout, call)
}

// printReady tells the parent that this process is ready, and where it listens if the kernel chose that.
func printReady(addr string) { fmt.Println(readyWord, addr) }

const readyWord = "ready"

// startAnswerer starts the two processes of a variant that has no others. The one that asks gets the address
// at which the other listens.
func startAnswerer(f *fleet) error {
	addr, err := f.spawnRole(answerer)
	if err != nil {
		return err
	}
	_, err = f.spawnRole(asker, addr)
	return err
}
