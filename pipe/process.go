package pipe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/acpd/acpd/internal/commandenv"
)

// process is a command that runs: what it reads and prints, and its end.
type process interface {
	duplex

	// words returns what it last said on standard error, two lines at most, fit to be quoted; "" if nothing.
	words() string

	// end ends it, unless it has ended, with all of its process group, and blocks until that is
	// done, for some 3 s at most. It returns how it ended, as in "ended with exit code 1". A
	// later call returns the same.
	end() string
}

const (
	leaveTime = 500 * time.Millisecond // from the end of its standard input to TERM
	killTime  = 2 * time.Second        // from TERM to KILL
	dieTime   = time.Second            // from KILL to the end, for a process that the system does not end either
	lookAgain = 10 * time.Millisecond  // between looks at a process group
	leftTime  = time.Second            // for unread data in its pipes when it has ended
)

// systemProcess is a process of the system. Its first one leads a session of its own, which has
// no terminal.
type systemProcess struct {
	cmd            *exec.Cmd
	stdin          *os.File
	stdout, stderr *os.File
	said           lastLines
	saidAll        chan struct{} // closed when standard error is read to its end
	exited         chan struct{} // closed when the first process has ended
	endOnce        sync.Once
	howEnded       string // after endOnce
}

// startProcess starts a command without a shell.
func startProcess(argv []string) (process, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		if e, ok := errors.AsType[*exec.Error](err); ok {
			err = e.Err
		}
		return nil, err
	}
	p := &systemProcess{saidAll: make(chan struct{}), exited: make(chan struct{})}
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	for _, end := range []**os.File{&p.stdin, &p.stdout, &p.stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			p.closeFiles()
			return nil, err
		}
		if end == &p.stdin {
			theirs, *end = append(theirs, r), w
		} else {
			theirs, *end = append(theirs, w), r
		}
	}
	p.cmd = &exec.Cmd{
		Path: path, Args: argv, Dir: "/",
		Env:   append(commandenv.Environ(), "SSH_ASKPASS_REQUIRE=never"), // ssh(1) asks for nothing by a window
		Stdin: theirs[0], Stdout: theirs[1], Stderr: theirs[2], SysProcAttr: newAttributes(),
	}
	started := make(chan error)
	go func() {
		// The system ends the command with the thread that started it (see newAttributes).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.cmd.Wait()
		close(p.exited)
		p.stdout.SetReadDeadline(time.Now().Add(leftTime)) // a process that it has left may hold it open
	}()
	if err := <-started; err != nil {
		p.closeFiles()
		return nil, err
	}
	go func() {
		defer close(p.saidAll)
		io.Copy(&p.said, p.stderr)
	}()
	return p, nil
}

func (p *systemProcess) closeFiles() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		if f != nil {
			f.Close()
		}
	}
}

// Read reads from the command's standard output, which ends with the command.
func (p *systemProcess) Read(b []byte) (int, error) {
	n, err := p.stdout.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) && p.hasExited() {
		err = io.EOF
	}
	return n, err
}

func (p *systemProcess) Write(b []byte) (int, error)        { return p.stdin.Write(b) }
func (p *systemProcess) SetReadDeadline(t time.Time) error  { return p.stdout.SetReadDeadline(t) }
func (p *systemProcess) SetWriteDeadline(t time.Time) error { return p.stdin.SetWriteDeadline(t) }
func (p *systemProcess) words() string                      { return p.said.words() }

func (p *systemProcess) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func (p *systemProcess) end() string {
	p.endOnce.Do(func() { p.howEnded = p.endGroup() })
	return p.howEnded
}

// endGroup does what end does, once.
func (p *systemProcess) endGroup() string {
	p.stdin.Close()
	group := p.cmd.Process.Pid
	byItself := p.awaitExit(leaveTime)
	signalGroup(group, syscall.SIGTERM)
	kill := time.Now().Add(killTime)
	if p.awaitExit(killTime) {
		for isGroupAlive(group) && time.Now().Before(kill) {
			time.Sleep(lookAgain)
		}
	}
	signalGroup(group, syscall.SIGKILL)
	gone := p.awaitExit(dieTime)
	p.stderr.SetReadDeadline(time.Now().Add(leftTime))
	<-p.saidAll
	p.stdout.Close()
	p.stderr.Close()
	switch {
	case !gone:
		return "does not end"
	case !byItself:
		return "closed its standard output"
	case p.cmd.ProcessState.Exited():
		return fmt.Sprintf("ended with exit code %d", p.cmd.ProcessState.ExitCode())
	}
	return "was ended by a signal (" + strings.TrimPrefix(p.cmd.ProcessState.String(), "signal: ") + ")"
}

// awaitExit waits until the first process has ended, for d at most, and reports whether it has.
func (p *systemProcess) awaitExit(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return p.hasExited()
	}
}

// signalGroup sends a signal to all processes of a group. It does nothing if they have all
// ended.
func signalGroup(group int, s syscall.Signal) { syscall.Kill(-group, s) }

func isGroupAlive(group int) bool { return syscall.Kill(-group, 0) == nil }
