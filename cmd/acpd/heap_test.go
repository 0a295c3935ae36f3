package main

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

// A small heap may grow several times over, a large one by much less than itself,
// and the rate follows the heap both ways.
func TestCollectorKeepsPace(t *testing.T) {
	rate := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	settles := func(low, high uint64) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); runtime.GC() {
			if r := rate(); low <= r && r <= high {
				return
			}
		}
		t.Errorf("%d %%, expected %d to %d", rate(), low, high)
	}
	setCollectorPace()
	settles(200, heapShare+400)
	large := make([]byte, 128<<20)
	settles(heapShare+10, heapShare+16)
	runtime.KeepAlive(large)
	settles(200, heapShare+400)
}
