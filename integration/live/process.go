package live

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
)

// Process is a program that runs, in a process group of its own.
type Process struct {
	Cmd            *exec.Cmd
	Stdout, Stderr await.Output
	Ended          chan struct{} // closed when it has ended
	Begun          time.Time
	Took           time.Duration // when Ended is closed
	First          func() error  // is called when it has been started, before anybody waits for it; nil: nothing

	t *testing.T
}

// StartProcess starts a program, which ends with the test.
func StartProcess(t *testing.T, env []string, argv ...string) *Process {
	t.Helper()
	p := PrepareProcess(t, env, argv...)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// PrepareProcess is StartProcess without the start.
func PrepareProcess(t *testing.T, env []string, argv ...string) *Process {
	p := &Process{t: t, Cmd: exec.Command(argv[0], argv[1:]...), Ended: make(chan struct{})}
	p.Cmd.Env, p.Cmd.Dir = env, "/"
	p.Cmd.Stdout, p.Cmd.Stderr = &p.Stdout, &p.Stderr
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.Cmd.WaitDelay = time.Second // for children that hold its output open
	return p
}

// Start starts what is prepared. Any goroutine may call it.
func (p *Process) Start() error {
	p.Begun = time.Now()
	if err := p.Cmd.Start(); err != nil {
		return err
	}
	var err error
	if p.First != nil {
		err = p.First()
	}
	go func() {
		p.Cmd.Wait()
		p.Took = time.Since(p.Begun)
		close(p.Ended)
	}()
	p.t.Cleanup(p.Stop)
	return err
}

// Stop ends the process if it still runs, and shows what it said if the test failed.
func (p *Process) Stop() {
	p.SignalGroup(syscall.SIGCONT)
	p.SignalGroup(syscall.SIGTERM)
	select {
	case <-p.Ended:
	case <-time.After(await.Patience):
		p.t.Errorf("%s does not end on SIGTERM", p.Cmd)
		p.SignalGroup(syscall.SIGKILL)
		<-p.Ended
	}
	if log := p.Stderr.String(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "\ngoroutine ") {
		p.t.Errorf("%s: a race or a panic", p.Cmd)
	}
	if p.t.Failed() {
		said := p.Stdout.String() + p.Stderr.String()
		p.t.Logf("%s (%s):\n%s", p.Cmd, p.Cmd.ProcessState, said[max(0, len(said)-4096):])
	}
}

func (p *Process) Signal(s syscall.Signal) { p.Cmd.Process.Signal(s) }

// Freeze stops the process, and returns when none of its threads runs any more: a signal alone
// leaves others running until one of them has taken it. SIGCONT lets it go on.
func (p *Process) Freeze() {
	p.t.Helper()
	p.Signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	err := error(syscall.EINTR)
	for err == syscall.EINTR {
		_, err = syscall.Wait4(p.Cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	}
	if err != nil || !status.Stopped() {
		p.t.Fatalf("%s does not stop: %v", p.Cmd, err)
	}
}

// SignalGroup reaches the children too.
func (p *Process) SignalGroup(s syscall.Signal) {
	if p.IsRunning() {
		syscall.Kill(-p.Cmd.Process.Pid, s)
	}
}

func (p *Process) IsRunning() bool {
	select {
	case <-p.Ended:
		return false
	default:
		return true
	}
}

// AwaitEnd waits for the end.
func (p *Process) AwaitEnd() {
	p.t.Helper()
	select {
	case <-p.Ended:
	case <-time.After(await.Patience):
		p.t.Fatalf("%s does not end", p.Cmd)
	}
}

// AwaitExit waits for the end, which must come with this exit code, and returns what is
// on standard output.
func (p *Process) AwaitExit(code int) (stdout string) {
	p.t.Helper()
	p.AwaitEnd()
	if got := p.Cmd.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("%s: exit code %d, want %d\n%s%s", p.Cmd, got, code, p.Stdout.String(), p.Stderr.String())
	}
	return p.Stdout.String()
}

// AwaitFailure is AwaitExit for who wants to know what is on standard error.
func (p *Process) AwaitFailure(code int) (stderr string) {
	p.t.Helper()
	p.AwaitExit(code)
	return p.Stderr.String()
}
