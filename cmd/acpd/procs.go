package main

import (
	"os"
	"runtime"
)

// sharedThreads is how many threads compute at least while several peers are connected,
// also on fewer processors.
const sharedThreads = 4

// leaveProcessors runs the daemon on half of the processors, unless GOMAXPROCS in
// the environment says otherwise. A message is a few tens of microseconds of work
// in each of many goroutines; on two processors that share it with the agents,
// waking the second thread cost more than it gained (a query of 200 B through two
// daemons: median 1.26 instead of 1.65 times the floor, and a fifth less CPU).
func leaveProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(ownThreads())
	}
}

// shareProcessors has the daemon compute on sharedThreads or more when a second peer is
// connected, until none is. What a peer asks for may compute for milliseconds. Go lets each
// goroutine wait for those before it, the kernel lets threads take turns: on two processors,
// the p99 of another peer's ping beside messages of 200 KiB was 4 to 5 times the quiet one on
// two threads, and 3 times on four; on one processor 4 times on one thread, and 2 on four.
func shareProcessors(peers int) {
	if os.Getenv("GOMAXPROCS") != "" || ownThreads() >= sharedThreads {
		return
	}
	switch {
	case peers == 0:
		runtime.GOMAXPROCS(ownThreads())
	case peers > 1:
		runtime.GOMAXPROCS(sharedThreads)
	}
}

func ownThreads() int { return max(1, runtime.NumCPU()/2) }
