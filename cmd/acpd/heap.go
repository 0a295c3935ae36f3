package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The heap grows by this share of what lives in it, and by slack besides, before it
// is collected.
const (
	share = 40       // percent
	slack = 16 << 20 // bytes
)

// least is the live heap that the collector takes a smaller one for, so that a rate
// set for less would let the heap grow by more than slack.
const least = 4 << 20 // bytes

// paceCollector keeps the heap's pace from now on. By itself the collector lets the
// heap double: too early for the few megabytes of a daemon with few peers, which it
// collects every few dozen messages of 60 KiB (15 % of the daemon's CPU time), and
// late for the 50 MB of one with a thousand. A larger fixed rate or a limit of
// memory would suit the one at the cost of the other, and a ballast would have an
// idle daemon collect at its start.
func paceCollector() {
	debug.SetGCPercent(100 * slack / least) // the first collection comes at slack
	afterCollection()
}

// afterCollection sets the rate anew when the collector has found the object dead
// that is made here: each time that it runs.
func afterCollection() {
	runtime.AddCleanup(new([64]byte), func(struct{}) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(share + int(100*slack/max(live[0].Value.Uint64(), least)))
		afterCollection()
	}, struct{}{})
}
