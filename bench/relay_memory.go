package main

import (
	"fmt"
	"io"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/pace"
)

// measureRelayMemory looks at daemons with and without a relay that rest together.
func measureRelayMemory(f *fleet, each int, rest time.Duration, log io.Writer) ([]figure, error) {
	if err := buildServer(f.ctx, f.bin); err != nil {
		return nil, err
	}
	url, err := f.spawnServer()
	if err != nil {
		return nil, err
	}
	var off, on memoryGroup
	for range each {
		if err := off.spawn(f, func(home) error { return nil }); err != nil {
			return nil, err
		}
		if err := on.spawn(f, func(h home) error { return h.configure(describeRelay(url)) }); err != nil {
			return nil, err
		}
	}
	if err := pace.Sleep(f.ctx, rest); err != nil {
		return nil, err
	}
	without, err := off.measure(residentMemory, fmt.Sprintf("memory of acpd without a relay %v after ready", rest))
	if err != nil {
		return nil, err
	}
	with, err := on.measure(residentMemory, "memory of acpd with a relay")
	if err != nil {
		return nil, err
	}
	ownWithout, err := off.measure(anonymousMemory, "own memory of acpd without a relay")
	if err != nil {
		return nil, err
	}
	ownWith, err := on.measure(anonymousMemory, "own memory of acpd with a relay")
	if err != nil {
		return nil, err
	}
	for _, h := range on.homes { // after the look, as the question itself takes memory
		daemon := client.Client{Socket: h.socketPath()}
		_, err := countRelayed(f.ctx, &daemon)
		daemon.Close()
		if err != nil {
			return nil, err
		}
	}
	for _, one := range []figure{without, with, ownWithout, ownWith} {
		fmt.Fprintf(log, "  %s: %.2f MB\n", one.what, one.values)
	}
	more := figure{what: "– with a relay more than without", unit: "MB", target: 3, strict: true}
	more.add(summarizeValues(with.values).median - summarizeValues(without.values).median)
	return []figure{without, with, more, ownWithout, ownWith}, nil
}
