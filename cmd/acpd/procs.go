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
