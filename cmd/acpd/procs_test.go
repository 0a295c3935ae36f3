package main

import (
	"runtime"
	"testing"
)

// A daemon computes on more threads while peers could hold up each other.
// holds: security.md#the-budget
func TestShareProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	limitThreads()
	few := runtime.GOMAXPROCS(0)
	many := max(few, 4)
	for i, step := range []struct{ peers, want int }{{1, few}, {2, many}, {3, many}, {1, many}, {0, few}, {1, few}} {
		if adjustThreads(step.peers); runtime.GOMAXPROCS(0) != step.want {
			t.Errorf("step %d: %d threads beside %d peers, want %d", i, runtime.GOMAXPROCS(0), step.peers, step.want)
		}
	}
	t.Setenv("GOMAXPROCS", "1")
	runtime.GOMAXPROCS(1)
	if adjustThreads(2); runtime.GOMAXPROCS(0) != 1 {
		t.Errorf("%d threads although the environment says one", runtime.GOMAXPROCS(0))
	}
}
