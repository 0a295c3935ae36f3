package main

import (
	"fmt"
	"io"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/pace"
)

// tailRestTime is how long daemons rest before the look at their memory: those that wait in vain have
// answered once by then.
const tailRestTime = client.MaxTrafficWait + 5*time.Second

// tailMemories are the kinds of memory that are looked at. Pages of the program are in memory once for all
// processes, and the kernel drops them when memory is short. acpd gives up those of its start when it is
// ready; each call maps again what it needs.
var tailMemories = []struct {
	what   string
	memory func(pid int) (int64, error)
	target float64
}{{"memory", residentMemory, 0}, {"own memory", anonymousMemory, 1}, {"pages of the program", fileMemory, 0}}

// measureTailMemory looks at daemons that rest: to which somebody is just connected, whom somebody asks for
// the status, and that a tail watches, in turn.
func measureTailMemory(f *fleet, log io.Writer) ([]figure, error) {
	var groups [3]memoryGroup
	plain := func(home) error { return nil }
	for range tailRest {
		for i := range groups {
			if err := groups[i].spawn(f, plain); err != nil {
				return nil, err
			}
		}
	}
	for n := range tailRest {
		for i, role := range [...]string{roleConnected, roleStatus, roleTail} {
			h := groups[i].homes[n]
			if _, err := h.awaitWhoami(f.ctx); err != nil {
				return nil, err
			}
			if _, err := f.spawnRole(role, h.socketPath()); err != nil {
				return nil, err
			}
		}
	}
	if err := pace.Sleep(f.ctx, tailRestTime); err != nil {
		return nil, err
	}
	var figures []figure
	for _, of := range tailMemories {
		var medians [3]float64
		for i, who := range [...]string{
			fmt.Sprintf("to which somebody is connected, %v after ready", tailRestTime),
			fmt.Sprintf("that is asked for its status every %v", client.MaxTrafficWait), "that a tail watches",
		} {
			one, err := groups[i].measure(of.memory, of.what+" of acpd "+who)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(log, "  %s: %.2f MB\n", one.what, one.values)
			medians[i] = summarizeValues(one.values).median
			figures = append(figures, one)
		}
		figures = append(figures, figure{what: "– with a tail more than connected", unit: "MB", target: of.target, values: []float64{medians[2] - medians[0]}})
	}
	return figures, nil
}
