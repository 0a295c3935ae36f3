package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	idleDaemons = 5
	idleTime    = 30 * time.Second // from ready to the look at memory
	crowdSize   = 1000
	crowdTime   = 10 * time.Second // from the last connection to the look at memory
	pings       = 20
)

// idleVariant is no way for a request to travel: it is the daemons that rest, and
// the process that plays a crowd of peers.
var idleVariant = variant{
	name:     "idle",
	programs: []string{"acpd", "acpctl"},
	roles:    map[string]role{"crowd": {serve: serveCrowd}, "hub": {obey: obeyHub}},
}

// benchIdle measures what a daemon costs that has nothing to do, and how long a person
// waits for it.
func benchIdle(ctx context.Context, to *report, log io.Writer) error {
	return measureParts(ctx, idleVariant, to, log,
		part{"start and rest", measureIdleDaemons}, part{"ping", measurePing}, part{"burst", measureBurst}, part{"crowd", measureCrowd}, part{"peer of a crowd", measureCrowdPeer})
}

// measureIdleDaemons starts daemons, one after the other, for the first time and again,
// and looks at them when they have rested together, having discovered each other.
func measureIdleDaemons(f *fleet) ([]figure, error) {
	first := figure{what: "start to ready, with a new identity", unit: "ms", target: 100}
	again := figure{what: "start to ready", unit: "ms", target: 100}
	memory := figure{what: fmt.Sprintf("memory %v after ready", idleTime), unit: "MB", target: 16}
	effort := figure{what: "CPU meanwhile", unit: "%", target: 0.2}
	for i := range idleDaemons {
		dir := f.joinPath(fmt.Sprint("home", i))
		for _, start := range []*figure{&first, &again} {
			if start == &again {
				if err := f.stopLast(); err != nil {
					return nil, err
				}
			}
			began := time.Now()
			if _, err := f.spawnDaemon(dir); err != nil {
				return nil, err
			}
			start.values = append(start.values, toMillis(time.Since(began)))
		}
	}
	shares, err := measureCPUShares(f.ctx, idleTime, f.procs)
	if err != nil {
		return nil, err
	}
	effort.values = shares
	for _, p := range f.procs {
		bytes, err := residentMemory(p.cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		memory.values = append(memory.values, toMegabytes(bytes))
	}
	return []figure{first, again, memory, effort}, nil
}

// measurePing runs acpctl between two daemons, as a person would.
func measurePing(f *fleet) ([]figure, error) {
	near, _, err := f.spawnPair()
	if err != nil {
		return nil, err
	}
	ping := figure{what: "acpctl ping -c 1, the process", unit: "ms", target: 40}
	for range pings {
		cmd := exec.CommandContext(f.ctx, filepath.Join(f.bin, "acpctl"), "ping", "-c", "1", "far")
		cmd.Env = append(os.Environ(), "ACP_HOME="+near.dir)
		began := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("acpctl ping: %w: %s", err, out)
		}
		ping.values = append(ping.values, toMillis(time.Since(began)))
	}
	return []figure{ping}, nil
}

// measureCrowd looks at a daemon to which a crowd of peers is connected.
func measureCrowd(f *fleet) ([]figure, error) {
	hub, err := createHome(f.joinPath("hub"))
	if err != nil {
		return nil, err
	}
	peers, err := f.spawnCrowd(hub)
	if err != nil {
		return nil, err
	}
	if _, err := f.spawnDaemon(hub.dir, "--no-mdns"); err != nil {
		return nil, err
	}
	daemon := f.lastProcess()
	if err := peers.awaitWord(connectedWord, crowdPatience); err != nil {
		return nil, err
	}
	if _, err := measureCPUShares(f.ctx, crowdTime, nil); err != nil { // connecting leaves garbage
		return nil, err
	}
	bytes, err := residentMemory(daemon.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	shares, err := measureCPUShares(f.ctx, idleTime, []*proc{daemon})
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%d peers connected: ", crowdSize)
	return []figure{
		{what: name + fmt.Sprintf("memory after %v", crowdTime), unit: "MB", target: 150, values: []float64{toMegabytes(bytes)}},
		{what: name + fmt.Sprintf("CPU in the %v after that", idleTime), unit: "%", values: shares},
	}, nil
}

// measureCPUShares lets d pass and returns which share of it, in percent, each process spent
// on a CPU.
func measureCPUShares(ctx context.Context, d time.Duration, procs []*proc) ([]float64, error) {
	shares := make([]float64, len(procs))
	began := time.Now()
	for i, p := range procs {
		before, err := cpuTime(p.cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		shares[i] = -before.Seconds()
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	elapsed := time.Since(began)
	for i, p := range procs {
		after, err := cpuTime(p.cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		shares[i] = (shares[i] + after.Seconds()) / elapsed.Seconds() * 100
	}
	return shares, nil
}

func toMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func toMegabytes(bytes int64) float64 { return float64(bytes) / 1e6 }
