package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"

	"github.com/acpd/acpd/daemon"
)

// obeyHub runs a daemon in this process, on a state directory, and answers each line with the
// bytes that it takes. Go's collector has its default settings here, which are not those of acpd.
func obeyHub(args []string) (answer func(string) (string, error), end func(), err error) {
	d, err := daemon.OpenDaemon(context.Background(), daemon.Options{Home: args[0], Listen: loopback, NoMDNS: true})
	if err != nil {
		return nil, nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { // end waits for it
		defer close(ended)
		if err := d.Run(ctx, nil); err != nil {
			fmt.Fprintln(os.Stderr, "bench: hub:", err)
			os.Exit(1)
		}
	}()
	return func(string) (string, error) { return strconv.FormatUint(measureSettledMemory(), 10), nil },
		func() { stop(); <-ended }, nil
}

// measureSettledMemory returns the bytes of the heap in use and of stacks when the collector finds
// nothing more to give back: one run halves a stack, and two are needed to empty a pool.
func measureSettledMemory() uint64 {
	for least := uint64(math.MaxUint64); ; {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		now := m.HeapInuse + m.StackInuse
		if now >= least {
			return least
		}
		least = now
	}
}

// askMemory asks the process that obeyHub serves.
func (p *proc) askMemory() (bytes float64, err error) {
	if _, err := fmt.Fprintln(p.stdin, "memory"); err != nil {
		return 0, err
	}
	line, err := p.readLine(patience)
	if err != nil {
		return 0, fmt.Errorf("memory of the hub: %w", err)
	}
	return strconv.ParseFloat(line, 64)
}

// measureCrowdPeer measures what a connected peer that rests takes of a daemon: what a daemon with
// the crowd takes more than one that knows nobody, for each of the crowd.
func measureCrowdPeer(f *fleet) ([]figure, error) {
	alone, err := createHome(f.joinPath("alone"))
	if err != nil {
		return nil, err
	}
	if _, err := f.spawnRole("hub", alone.dir); err != nil {
		return nil, err
	}
	before, err := f.lastProcess().askMemory()
	if err != nil {
		return nil, err
	}
	hub, err := createHome(f.joinPath("hub"))
	if err != nil {
		return nil, err
	}
	peers, err := f.spawnCrowd(hub)
	if err != nil {
		return nil, err
	}
	if _, err := f.spawnRole("hub", hub.dir); err != nil {
		return nil, err
	}
	daemon := f.lastProcess()
	if err := peers.awaitWord(connectedWord, crowdPatience); err != nil {
		return nil, err
	}
	if _, err := measureCPUShares(f.ctx, crowdTime, nil); err != nil { // connecting leaves timers
		return nil, err
	}
	after, err := daemon.askMemory()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%d peers connected: heap in use after collection, and stacks, for each", crowdSize)
	return []figure{{what: name, unit: "KB", target: 70, strict: true, values: []float64{(after - before) / crowdSize / 1000}}}, nil
}
