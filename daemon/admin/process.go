package admin

import (
	"os"
	"path/filepath"
	"runtime"
	rt "runtime/metrics"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/buildinfo"
	"github.com/acpd/acpd/metrics"
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

// DescribeProcess returns what the status says of this process. It leaves out the UDP socket.
func DescribeProcess() client.Process {
	u := measureProcess()
	return client.Process{
		PID: os.Getpid(), Goroutines: u.goroutines, HeapBytes: u.heap,
		Descriptors: int(max(u.descriptors, 0)), MaxDescriptors: ReadDescriptorLimit(),
	}
}

// ListProcessFamilies returns the metrics of the process, under the names that all programs use.
func ListProcessFamilies(version string, started time.Time) []metrics.Family {
	usage := measureProcess()
	return []metrics.Family{
		{Name: "acpd_build_info", Type: metrics.Gauge, Help: "1; the labels say which program runs.", Write: func(t *metrics.Text) { writeBuildInfo(t, version) }},
		{Name: "process_start_time_seconds", Type: metrics.Gauge, Help: "When the daemon started, in seconds since 1970.", Write: metrics.One(float64(started.UnixMilli()) / 1000)},
		{Name: "process_cpu_seconds_total", Type: metrics.Counter, Help: "CPU time, user and system.", Write: metrics.OneKnown(usage.cpu)},
		{Name: "process_resident_memory_bytes", Type: metrics.Gauge, Help: "Memory that the process has in RAM.", Write: metrics.OneKnown(usage.resident)},
		{Name: "process_open_fds", Type: metrics.Gauge, Help: "Descriptors that are open.", Write: metrics.OneKnown(usage.descriptors)},
		{Name: "process_max_fds", Type: metrics.Gauge, Help: "Descriptors that the process may have.", Write: metrics.One(ReadDescriptorLimit())},
		{Name: "go_goroutines", Type: metrics.Gauge, Help: "Goroutines that there are.", Write: metrics.One(usage.goroutines)},
		{Name: "go_memory_classes_heap_objects_bytes", Type: metrics.Gauge, Help: "Memory of objects that are in use or not collected yet.", Write: metrics.One(usage.heap)},
		{Name: "go_memory_classes_total_bytes", Type: metrics.Gauge, Help: "Memory that the Go runtime has from the system.", Write: metrics.One(usage.goTotal)},
		{Name: "go_gc_cycles_total", Type: metrics.Counter, Help: "Runs of the garbage collector that have ended.", Write: metrics.One(usage.gcCycles)},
	}
}

func writeBuildInfo(t *metrics.Text, version string) {
	t.Add(1, metrics.Label{Name: "version", Value: version}, metrics.Label{Name: "commit", Value: buildinfo.Read().Commit},
		metrics.Label{Name: "goversion", Value: runtime.Version()}, metrics.Label{Name: "goos", Value: runtime.GOOS}, metrics.Label{Name: "goarch", Value: runtime.GOARCH})
}
