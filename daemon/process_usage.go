package daemon

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/metrics"
)

// processUsage is what this process takes of the machine; a negative number is not known.
type processUsage struct {
	cpu         float64 // seconds, user and system
	resident    float64 // bytes
	descriptors float64
}

// measureProcess returns what this process takes of the machine now, as far as the system
// says: macOS does not say without cgo how much memory is in RAM.
func measureProcess() processUsage {
	u := processUsage{cpu: -1, resident: -1, descriptors: -1}
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

// write returns what writes a family of one series, or of none if the value is not known.
func (processUsage) write(value float64) func(*metrics.Text) {
	return func(t *metrics.Text) {
		if value >= 0 {
			t.Add(value)
		}
	}
}
