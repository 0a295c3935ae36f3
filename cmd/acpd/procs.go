package main

import (
	"os"
	"runtime"
)

// sharedThreads is the least number of threads that compute while several peers are
// connected, also on fewer processors.
const sharedThreads = 4

// limitThreads lets the daemon compute on half of the processors, unless GOMAXPROCS in the
// environment says otherwise. A message is a few tens of microseconds of work in each of
// many goroutines. On two processors that it shares with the agents, waking the second
// thread cost more than it gained: a query of 200 B through two daemons took 1.26 instead of
// 1.65 times the floor (median), and a fifth less CPU.
func limitThreads() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(defaultThreadCount())
	}
}

// adjustThreads lets the daemon compute on at least sharedThreads threads when a second peer
// connects, until no peer is connected. A peer's request may compute for milliseconds. Go lets each
// goroutine wait for those before it, while the kernel lets threads take turns.
//
// Measured: the p99 of another peer's ping during messages of 200 KiB, as a multiple of the
// quiet one. On two processors it was 4 to 5 on two threads, and 3 on four; on one processor
// 4 on one thread, and 2 on four.
func adjustThreads(peers int) {
	if os.Getenv("GOMAXPROCS") != "" || defaultThreadCount() >= sharedThreads {
		return
	}
	switch {
	case peers == 0:
		runtime.GOMAXPROCS(defaultThreadCount())
	case peers > 1:
		runtime.GOMAXPROCS(sharedThreads)
	}
}

func defaultThreadCount() int { return max(1, runtime.NumCPU()/2) }
