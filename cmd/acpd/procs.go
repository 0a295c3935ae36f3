package main

import (
	"os"
	"runtime"
)

// leaveProcessors runs the daemon on half of the processors, unless GOMAXPROCS in
// the environment says otherwise. A message is a few tens of microseconds of work
// in each of many goroutines; on two processors that share it with the agents,
// waking the second thread cost more than it gained (a query of 200 B through two
// daemons: median 1.26 instead of 1.65 times the floor, and a fifth less CPU).
func leaveProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2))
	}
}

// shareProcessors has the daemon take a second processor where it has one, when a second
// peer is connected, until none is. On one processor whatever arrives waits while
// something is computed for milliseconds: what one peer asks for would hold up the others
// (p99 of another peer's ping beside large writes: 27 ms on one processor, 10 on two).
func shareProcessors(peers int) {
	if os.Getenv("GOMAXPROCS") != "" || runtime.NumCPU()/2 > 1 {
		return
	}
	switch {
	case peers == 0:
		runtime.GOMAXPROCS(1)
	case peers > 1:
		runtime.GOMAXPROCS(min(2, runtime.NumCPU()))
	}
}
