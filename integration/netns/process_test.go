//go:build netns

package netns

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// patience is how long a test waits for what must come.
	patience = 20 * time.Second
	// slack is what a loaded machine may add to a promised time.
	slack = 500 * time.Millisecond
)

// process is a program on a host.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr output
	ended          chan struct{}
	begun          time.Time
	took           time.Duration // when ended is closed
}

// output may be read while a process writes it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// begin starts a program, which ends with the test. The programs under test come
// first in its PATH.
func (h *host) begin(env []string, stdin string, argv ...string) *process {
	h.l.t.Helper()
	if own := filepath.Join(os.Getenv(binDir), argv[0]); exists(own) {
		argv[0] = own
	}
	p := &process{t: h.l.t, cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv(binDir) + ":" + os.Getenv("PATH")}, env...)
	p.cmd.Dir = "/"
	p.cmd.Stdin = strings.NewReader(stdin)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = time.Second // for children that hold its output open
	p.begun = time.Now()
	if err := h.in(p.cmd.Start); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		p.took = time.Since(p.begun)
		close(p.ended)
	}()
	p.t.Cleanup(p.end)
	return p
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// end ends the process if it still runs, and shows what it said if the test failed.
func (p *process) end() {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Errorf("%s does not end on SIGTERM", p.cmd)
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
	said := p.stdout.String() + p.stderr.String()
	if strings.Contains(said, "\ngoroutine ") {
		p.t.Errorf("%s: a panic", p.cmd)
	}
	if p.t.Failed() {
		p.t.Logf("%s (%s):\n%s", p.cmd, p.cmd.ProcessState, said[max(0, len(said)-4096):])
	}
}

// signal reaches the children too.
func (p *process) signal(s syscall.Signal) {
	if p.running() {
		syscall.Kill(-p.cmd.Process.Pid, s)
	}
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// exits waits for the end, which must come with this exit code, and returns what
// was printed.
func (p *process) exits(code int) (stdout string) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("%s does not end", p.cmd)
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("%s: exit code %d, want %d\n%s%s", p.cmd, got, code, p.stdout.String(), p.stderr.String())
	}
	return p.stdout.String()
}

// eventually polls what must come within a time of since, and returns how long
// after since it came.
func eventually(t *testing.T, since time.Time, within time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		holds := ok()
		took := time.Since(since)
		if holds && took <= within {
			return took
		}
		if took > within {
			t.Fatalf("not within %s: %s", within, what)
		}
		<-tick.C
	}
}

// within fails the test where something that is over took too long.
func within(t *testing.T, what string, took, limit time.Duration) {
	t.Helper()
	t.Logf("%s: %s", what, took.Round(time.Millisecond))
	if took > limit {
		t.Errorf("%s took %s, want at most %s", what, took, limit)
	}
}
