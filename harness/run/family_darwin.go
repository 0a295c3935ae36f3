package run

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// findOwnProgram returns the path by which a process starts its own program again.
func findOwnProgram() (string, error) { return os.Executable() }

// descriptorsFolder lists what the process that reads it has open.
const descriptorsFolder = "/dev/fd"

// becomeSubreaper does nothing: macOS has no such thing. [watchedFamily] looks often instead.
func becomeSubreaper() error { return nil }

func newProgramAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// watchedFamily remembers descendants, which macOS loses sight of when their parents end.
type watchedFamily struct {
	mu    sync.Mutex
	known map[int]unix.Timeval // when each began: numbers are used again
	stop  chan struct{}
	done  chan struct{}
}

func (w *watchedFamily) begin(program int) {
	w.known = map[int]unix.Timeval{}
	w.stop, w.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(w.done)
		look := time.NewTicker(100 * time.Millisecond)
		defer look.Stop()
		for {
			w.list()
			select {
			case <-w.stop:
				return
			case <-look.C:
			}
		}
	}()
}

func (w *watchedFamily) end() {
	close(w.stop)
	<-w.done
}

// list returns the descendants that have not ended, as far as they were ever seen.
func (w *watchedFamily) list() []int {
	processes, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	self, alive := os.Getpid(), map[int]unix.Timeval{}
	for grown := true; grown; {
		grown = false
		for i := range processes {
			p := &processes[i]
			pid, parent := int(p.Proc.P_pid), int(p.Eproc.Ppid)
			if _, found := alive[pid]; found || p.Proc.P_stat == 5 { // a zombie
				continue
			}
			began, remembered := w.known[pid]
			_, child := alive[parent]
			if remembered && began == p.Proc.P_starttime || child || parent == self {
				alive[pid] = p.Proc.P_starttime
				grown = true
			}
		}
	}
	w.known = alive
	var all []int
	for pid := range alive {
		all = append(all, pid)
	}
	return all
}
