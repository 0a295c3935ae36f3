package run

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// findOwnProgram returns the path by which a process starts its own program again, also if its
// file was replaced meanwhile.
func findOwnProgram() (string, error) { return "/proc/self/exe", nil }

// descriptorsFolder lists what the process that reads it has open.
const descriptorsFolder = "/proc/self/fd"

// becomeSubreaper makes orphans among the descendants of this process its children.
func becomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("subreaper: %w", err)
	}
	return nil
}

func newProgramAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// watchedFamily lists the descendants of this process. As it is a subreaper, none gets lost.
type watchedFamily struct{}

func (watchedFamily) begin(int) {}
func (watchedFamily) end()      {}

// list returns the descendants that have not ended.
func (watchedFamily) list() []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil
	}
	children := make(map[int][]int)
	ended := make(map[int]bool)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has ended
		}
		// The name in brackets is the program's own choice.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		parent, err := strconv.Atoi(string(fields[1]))
		if err != nil {
			continue
		}
		children[parent] = append(children[parent], pid)
		ended[pid] = fields[0][0] == 'Z' || fields[0][0] == 'X'
	}
	var all []int
	for next := []int{os.Getpid()}; len(next) > 0; next = next[1:] {
		for _, pid := range children[next[0]] {
			next = append(next, pid)
			if !ended[pid] {
				all = append(all, pid)
			}
		}
	}
	return all
}
