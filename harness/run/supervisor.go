package run

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	lookAgain = 5 * time.Millisecond // between looks at what is still there
	killTime  = 5 * time.Second      // how long what does not die is killed again
)

// supervise runs the program that its order names, and ends with it and with everything that
// it has started. It ends them earlier if the order's descriptor comes to its end: the caller
// wants that, or is gone.
func supervise() int {
	runtime.LockOSThread() // the program ends with the thread that started it
	// They are taken and forgotten: what is ignored would stay so in the program.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	told := os.NewFile(reportFD, "report")
	syscall.CloseOnExec(orderFD)
	syscall.CloseOnExec(reportFD)
	r := superviseOrder(os.NewFile(orderFD, "order"))
	text, err := json.Marshal(&r)
	if err != nil {
		return 1
	}
	told.Write(text)
	return 0
}

func superviseOrder(lifeline *os.File) report {
	in := bufio.NewReader(lifeline)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return report{Code: 1, Err: "the order does not come: " + err.Error()}
	}
	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		return report{Code: 1, Err: "the order: " + err.Error()}
	}
	if err := becomeSubreaper(); err != nil {
		return report{Code: 1, Err: err.Error()}
	}
	program, err := startProgram(line)
	if err != nil {
		return report{Code: 1, Err: err.Error()}
	}
	over := make(chan struct{})
	go func() {
		io.Copy(io.Discard, in)
		close(over)
	}()
	ended, allGone := make(chan syscall.WaitStatus, 1), make(chan struct{})
	go reap(program, ended, allGone)

	family := newFamily(program)
	defer family.close()
	code := 128 + int(syscall.SIGKILL)
	select {
	case status := <-ended:
		code = exitCode(status)
	case <-over:
		family.signal(syscall.SIGTERM)
		grace := time.NewTimer(time.Duration(o.GraceMS) * time.Millisecond)
		select {
		case status := <-ended: // what it has left behind gets no more time
			code = exitCode(status)
		case <-grace.C:
		}
		grace.Stop()
	}
	family.kill(allGone)
	select {
	case status := <-ended:
		code = exitCode(status)
	default:
	}
	return report{Code: code}
}

// startProgram starts the process that becomes the program, and returns when it has, or an
// error that says why it could not.
func startProgram(order []byte) (pid int, err error) {
	exe, err := findOwnProgram()
	if err != nil {
		return 0, err
	}
	orderR, orderW, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer orderW.Close()
	failR, failW, err := os.Pipe()
	if err != nil {
		orderR.Close()
		return 0, err
	}
	defer failR.Close()
	pid, err = syscall.ForkExec(exe, []string{roleConfined}, &syscall.ProcAttr{
		Env:   os.Environ(), // that of a helper
		Files: []uintptr{0, 1, 2, orderR.Fd(), failW.Fd()},
		Sys:   newProgramAttributes(),
	})
	orderR.Close()
	failW.Close()
	if err != nil {
		return 0, err
	}
	// The other pipe reports a failure here.
	orderW.Write(order)
	orderW.Close()
	why, err := io.ReadAll(io.LimitReader(failR, 4<<10))
	if err == nil && len(why) == 0 {
		return pid, nil
	}
	syscall.Kill(pid, syscall.SIGKILL)
	var status syscall.WaitStatus
	syscall.Wait4(pid, &status, 0, nil)
	if err == nil {
		err = errors.New(string(why))
	}
	return 0, err
}

// becomeProgram takes the rules of its order upon itself and becomes the program. It returns
// only if that fails.
func becomeProgram() {
	runtime.LockOSThread() // rules are a thread's, which exec makes the process
	told := os.NewFile(reportFD, "report")
	syscall.CloseOnExec(orderFD)
	syscall.CloseOnExec(reportFD)
	if err := becomeProgramOf(os.NewFile(orderFD, "order")); err != nil {
		io.WriteString(told, err.Error())
	}
}

func becomeProgramOf(in io.Reader) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	var o order
	if err := json.Unmarshal(text, &o); err != nil {
		return fmt.Errorf("the order: %w", err)
	}
	if err := os.Chdir(o.Dir); err != nil {
		return err
	}
	if err := keepDescriptors(); err != nil {
		return err
	}
	if err := o.Rules.apply(); err != nil {
		return err
	}
	if err := syscall.Exec(o.Argv[0], o.Argv, o.Env); err != nil {
		return fmt.Errorf("%s: %w", o.Argv[0], err)
	}
	return nil
}

// keepDescriptors keeps open files and connections from the program, except the three of every process.
// They come from whoever started acpctl, and no rule of a confinement would close them to the program.
func keepDescriptors() error {
	open, err := os.ReadDir(descriptorsFolder)
	if err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}
	for _, d := range open {
		if fd, err := strconv.Atoi(d.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// reap waits for all children, those that the program left behind among them, until there are
// none.
func reap(program int, ended chan<- syscall.WaitStatus, allGone chan<- struct{}) {
	defer close(allGone)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // ECHILD: no process is left
			return
		case pid == program && (status.Exited() || status.Signaled()):
			ended <- status
		}
	}
}

func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// family is the program and everything that it has started.
type family struct {
	program int // also its process group
	watched watchedFamily
}

func newFamily(program int) *family {
	f := &family{program: program}
	f.watched.begin(program)
	return f
}

func (f *family) close() { f.watched.end() }

func (f *family) signal(s syscall.Signal) {
	syscall.Kill(-f.program, s)
	for _, pid := range f.watched.list() {
		syscall.Kill(pid, s)
	}
}

// kill kills the family until it is gone, for some seconds at most. It stops all first: what
// is stopped starts nothing.
func (f *family) kill(allGone <-chan struct{}) {
	give := time.Now().Add(killTime)
	for {
		for stopped := -1; ; {
			members := f.watched.list()
			for _, pid := range members {
				syscall.Kill(pid, syscall.SIGSTOP)
			}
			if len(members) <= stopped || len(members) == 0 || time.Now().After(give) {
				break
			}
			stopped = len(members)
		}
		f.signal(syscall.SIGKILL)
		select {
		case <-allGone:
			if len(f.watched.list()) == 0 {
				return
			}
			time.Sleep(lookAgain)
		case <-time.After(lookAgain):
		}
		if time.Now().After(give) {
			return
		}
	}
}
