package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the CPU time, user and system, that a process has spent so far in
// all its threads, ended ones included. It reads the clock behind
// clock_getcpuclockid(3), which counts nanoseconds where /proc/PID/stat counts ticks.
func cpuTime(pid int) (time.Duration, error) {
	const schedClock = 2 // CPUCLOCK_SCHED in the kernel's posix-timers.h
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}
