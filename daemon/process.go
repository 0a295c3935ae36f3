package daemon

import (
	"os"
	"path/filepath"
	"runtime"
	rt "runtime/metrics"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/admin"
)

// processUsage is what this process takes of the machine; a negative number is not known.
type processUsage struct {
	cpu         float64 // seconds, user and system
	resident    float64 // bytes
	descriptors float64 // that are open

	heap       uint64 // bytes of objects that are in use or not collected yet
	goTotal    uint64 // bytes that the Go runtime has from the system
	gcCycles   uint64
	goroutines int
}

// measureProcess returns what this process takes of the machine now, as far as the system
// says: macOS does not say without cgo how much memory is in RAM. It stops no goroutine.
func measureProcess() processUsage {
	samples := []rt.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	rt.Read(samples)
	u := processUsage{
		cpu: -1, resident: -1, descriptors: -1, goroutines: runtime.NumGoroutine(),
		heap: samples[0].Value.Uint64(), goTotal: samples[1].Value.Uint64(), gcCycles: samples[2].Value.Uint64(),
	}
	var times unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &times) == nil {
		u.cpu = float64(times.Utime.Nano()+times.Stime.Nano()) / 1e9
	}
	if f, err := os.Open("/dev/fd"); err == nil {
		if names, err := f.Readdirnames(-1); err == nil {
			u.descriptors = float64(len(names) - 1) // without the one that lists them
		}
		f.Close()
	}
	if runtime.GOOS == "linux" {
		if text, err := os.ReadFile(filepath.Join("/proc", "self", "statm")); err == nil {
			if fields := strings.Fields(string(text)); len(fields) > 1 {
				if pages, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
					u.resident = float64(pages) * float64(os.Getpagesize())
				}
			}
		}
	}
	return u
}

// describeProcess says for the status what this process has of its machine.
func (d *Daemon) describeProcess() client.Process {
	u := measureProcess()
	p := client.Process{
		PID: os.Getpid(), Goroutines: u.goroutines, HeapBytes: u.heap,
		Descriptors: int(max(u.descriptors, 0)), MaxDescriptors: admin.ReadDescriptorLimit(),
	}
	p.UDPReceiveBytes, p.UDPSendBytes = d.node.SocketBuffers()
	return p
}
