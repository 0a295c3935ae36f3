package peer

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestReadyConnKeepsNoSignature holds that a connection keeps nothing of the hellos' post-quantum
// halves, which are 5 KB for each peer.
func TestReadyConnKeepsNoSignature(t *testing.T) {
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	a, b := loopbackPair(t, nil)
	a.ask(b, "connect")
	kept := int64(0)
	for deadline := time.Now().Add(soon); time.Now().Before(deadline); {
		if kept = measureMemoryFrom("identity.(*Key).SignHello"); kept == 0 {
			return
		}
	}
	t.Errorf("%d bytes of signatures are kept", kept)
}

// measureMemoryFrom collects garbage, and returns the bytes in use that a function has allocated.
func measureMemoryFrom(function string) (bytes int64) {
	for range 3 { // a profile is what the last but one collection left
		runtime.GC()
	}
	records := make([]runtime.MemProfileRecord, 10_000)
	n, ok := runtime.MemProfile(records, false)
	for !ok {
		records = make([]runtime.MemProfileRecord, 2*n)
		n, ok = runtime.MemProfile(records, false)
	}
	for _, r := range records[:n] {
		for frames := runtime.CallersFrames(r.Stack()); ; {
			frame, more := frames.Next()
			if strings.HasSuffix(frame.Function, function) {
				bytes += r.InUseBytes()
				break
			}
			if !more {
				break
			}
		}
	}
	return bytes
}
