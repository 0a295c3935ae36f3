package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Before a collection, the heap grows by this share of its live part, and by heapSlack in
// addition.
const (
	heapShare = 40       // percent
	heapSlack = 16 << 20 // bytes
)

// leastHeap is the least live heap for which a rate is set: the collector assumes 4 MiB for
// a smaller one, so a rate for less would let the heap grow by more than heapSlack.
const leastHeap = 4 << 20 // bytes

// setCollectorPace keeps the heap's pace from now on. By itself the collector lets the
// heap double: too early for the few megabytes of a daemon with few peers, which it
// collects every few dozen messages of 60 KiB (15 % of the daemon's CPU time), and
// late for the 50 MB of one with a thousand. A larger fixed rate or a limit of
// memory would suit the one at the cost of the other, and a ballast would have an
// idle daemon collect at its start.
func setCollectorPace() {
	debug.SetGCPercent(100 * heapSlack / leastHeap) // the first collection comes at heapSlack
	retuneAfterCollection()
}

// retuneAfterCollection sets the rate anew after the next run of the collector, and after
// each one that follows: its cleanup runs when the collector has found the object dead that
// is made here.
func retuneAfterCollection() {
	runtime.AddCleanup(new([64]byte), func(struct{}) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(heapShare + int(100*heapSlack/max(live[0].Value.Uint64(), leastHeap)))
		retuneAfterCollection()
	}, struct{}{})
}
