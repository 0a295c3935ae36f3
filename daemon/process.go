package daemon

import (
	"os"
	"runtime"
	"runtime/metrics"

	"github.com/acpd/acpd/client"
)

// heapMetric counts the bytes of objects on the heap. Reading it stops nothing.
const heapMetric = "/memory/classes/heap/objects:bytes"

// describeProcess says what this process has of its machine.
func (d *Daemon) describeProcess() client.Process {
	heap := []metrics.Sample{{Name: heapMetric}}
	metrics.Read(heap)
	p := client.Process{
		PID: os.Getpid(), Goroutines: runtime.NumGoroutine(), HeapBytes: heap[0].Value.Uint64(),
		Descriptors: countFileDescriptors(), MaxDescriptors: readFileDescriptorLimit(),
	}
	p.UDPReceiveBytes, p.UDPSendBytes = d.node.SocketBuffers()
	return p
}

// countFileDescriptors returns how many descriptors this process has open, 0 if the system does
// not say.
func countFileDescriptors() int {
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		return 0
	}
	return max(len(open)-1, 0) // without the one that reads the folder
}
