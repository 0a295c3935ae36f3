//go:build faults

package faults

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stepped is set for this test binary where it only has to become another program
// whose steps are watched: see stoppable.
const stepped = "ACPD_FAULTS_STEPPED"

// onFile are the system calls that change a file by its descriptor, byName those that
// do so by name. Of those that open a file only what creates one is a step.
var (
	onFile = []uint32{unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_WRITEV, unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE}
	byName = append([]uint32{unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_UNLINKAT, unix.SYS_MKDIRAT}, olderCalls...)
)

// stoppable is a program that can be killed before each step that it takes on the
// files below a folder: between two steps it is as after a loss of power but for what
// the kernel keeps. A filter of the kernel stops it at these steps alone.
type stoppable struct {
	folder string
	limit  atomic.Int64 // of steps; 0: it is not killed
	taken  atomic.Int64 // steps, since the limit was set
	armed  atomic.Bool
	cmd    *exec.Cmd
	said   bytes.Buffer // once ended is closed
	ended  chan struct{}
	killed bool // by its limit; once ended is closed
	code   int
}

// runStoppable starts a program. Where armed is false nothing counts until arm.
func runStoppable(folder string, env []string, limit int64, armed bool, argv ...string) (*stoppable, error) {
	s := &stoppable{folder: folder, ended: make(chan struct{})}
	s.limit.Store(limit)
	s.armed.Store(armed)
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s.cmd = exec.Command(self, argv...)
	s.cmd.Env, s.cmd.Dir = append(slices.Clone(env), stepped+"=1"), "/"
	s.cmd.Stdout, s.cmd.Stderr = &s.said, &s.said
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	started := make(chan error, 1)
	go func() {
		defer close(s.ended)
		runtime.LockOSThread() // the tracer is a thread, which ends here
		if err := s.cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		if err := s.trace(); err != nil {
			fmt.Fprintln(&s.said, "trace:", err)
			syscall.Kill(s.cmd.Process.Pid, syscall.SIGKILL)
		}
		s.cmd.Wait() // for its output; trace has reaped it
	}()
	return s, <-started
}

// arm counts from now on, and kills at that step.
func (s *stoppable) arm(limit int64) {
	s.limit.Store(limit)
	s.taken.Store(0)
	s.armed.Store(true)
}

// kill ends it, wherever it is.
func (s *stoppable) kill() {
	syscall.Kill(s.cmd.Process.Pid, syscall.SIGKILL)
	<-s.ended
}

// trace follows all threads until the process has ended.
func (s *stoppable) trace() error {
	pid := s.cmd.Process.Pid
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil {
		return err
	}
	const options = unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEEXEC
	if err := syscall.PtraceSetOptions(pid, options); err != nil {
		return err
	}
	known := map[int]bool{pid: true}
	for thread := pid; ; {
		signal := 0
		switch {
		case !ws.Stopped():
		case ws.StopSignal() == syscall.SIGTRAP && int(ws)>>16 == unix.PTRACE_EVENT_SECCOMP:
			if s.armed.Load() && s.counts(thread) && s.taken.Add(1) == s.limit.Load() {
				s.killed = true
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					return err
				}
			}
		case ws.StopSignal() == syscall.SIGTRAP:
		case ws.StopSignal() == syscall.SIGSTOP && !known[thread]: // a new thread begins so
		default:
			signal = int(ws.StopSignal())
		}
		known[thread] = true
		if ws.Stopped() {
			if err := syscall.PtraceCont(thread, signal); err != nil && err != syscall.ESRCH {
				return err
			}
		}
		var err error
		if thread, err = syscall.Wait4(-pid, &ws, unix.WALL, nil); err == syscall.EINTR {
			ws = 0x7f | syscall.WaitStatus(syscall.SIGTRAP)<<8
			thread = pid
			continue
		} else if err != nil {
			return err
		}
		if thread == pid && (ws.Exited() || ws.Signaled()) {
			s.code = ws.ExitStatus()
			return nil
		}
	}
}

// counts reports whether the call that a thread is about to make changes something
// below the folder.
func (s *stoppable) counts(thread int) bool {
	var info [88]byte // struct ptrace_syscall_info
	if _, _, no := syscall.Syscall6(syscall.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(thread), uintptr(len(info)), uintptr(unsafe.Pointer(&info)), 0, 0); no != 0 {
		return false
	}
	call := uint32(binary.NativeEndian.Uint64(info[24:]))
	if !slices.Contains(onFile, call) {
		return true
	}
	file := binary.NativeEndian.Uint64(info[32:])
	path, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(thread), "fd", strconv.FormatUint(file, 10)))
	return err == nil && strings.HasPrefix(path, s.folder)
}

// becomeStepped makes this process the program of its arguments, which stops before
// each step for whoever traces it.
func becomeStepped() error {
	runtime.LockOSThread() // the filter is this thread's, and the program's
	const number, third = 0, 16 + 2*8
	var code []unix.SockFilter
	add := func(f ...unix.SockFilter) { code = append(code, f...) }
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	trace := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	add(load(number))
	for _, n := range slices.Concat(onFile, byName) {
		add(unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: n, Jf: 1}, trace)
	}
	opens := func(call, flags uint32) {
		add(unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 4}, load(flags),
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.O_CREAT, Jf: 1}, trace, allow)
	}
	opens(unix.SYS_OPENAT, third)
	if olderOpen != 0 {
		opens(olderOpen, third-8)
	}
	add(allow)
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("set a filter of system calls: %w", err)
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, stepped) })
	return syscall.Exec(os.Args[1], os.Args[1:], env)
}
