package main

import (
	"fmt"
	"io"

	"github.com/acpd/acpd/internal/pace"
)

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
	var figures []figure
	for _, of := range []struct {
		what   string
		memory func(pid int) (int64, error)
		target float64
	}{{"memory", residentMemory, 1}, {"own memory", anonymousMemory, 1}, {"pages of the program", fileMemory, 0}} {
		without, err := off.measure(of.memory, fmt.Sprintf("%s of acpd to which somebody is connected, %v after ready", of.what, idleTime))
		if err != nil {
			return nil, err
		}
		with, err := on.measure(of.memory, of.what+" of acpd that a tail watches")
		if err != nil {
			return nil, err
		}
		for _, one := range []figure{without, with} {
			fmt.Fprintf(log, "  %s: %.2f MB\n", one.what, one.values)
		}
		more := summarizeValues(with.values).median - summarizeValues(without.values).median
		figures = append(figures, without, with, figure{what: "– with a tail more than without", unit: "MB", target: of.target, values: []float64{more}})
	}
	return figures, nil
}
