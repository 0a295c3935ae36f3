package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time, user and system, that a process has spent so far in
// all its threads, ended ones included. It reads the clock behind
// clock_getcpuclockid(3), which has nanoseconds where /proc/PID/stat has ticks.
func cpuTime(pid int) (time.Duration, error) {
	const schedClock = 2 // CPUCLOCK_SCHED in the kernel's posix-timers.h
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}

// residentMemory returns how many bytes a process has in memory, its program included.
// The figure is exact; those in status and statm may lag.
func residentMemory(pid int) (int64, error) {
	path := fmt.Sprintf("/proc/%d/smaps_rollup", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kibibytes int64
		if n, _ := fmt.Sscanf(line, "Rss: %d kB", &kibibytes); n == 1 {
			return kibibytes << 10, nil
		}
	}
	return 0, fmt.Errorf("%s has no Rss", path)
}
