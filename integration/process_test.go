package integration

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	flag.Parse()
	if !raceEnabled {
		// Most tests wait for time to pass: more of them fit than there are processors.
		flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0)))
	}
	code := m.Run()
	os.RemoveAll(builtIn)
	os.Exit(code)
}

// builtIn is the directory of acpd and acpctl, once they are built.
var builtIn string

// programs builds acpd and acpctl once for all tests and returns their directory,
// which any user may read. Where the race detector watches the tests it watches
// them too.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "acp-programs")
	if err != nil {
		return "", err
	}
	builtIn = dir
	args, cgo := []string{"build", "-trimpath", "-o", dir + "/"}, "CGO_ENABLED=0"
	if raceEnabled {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", append(args, "./cmd/acpd", "./cmd/acpctl")...)
	cmd.Dir, cmd.Env = "..", append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New("build: " + err.Error() + "\n" + string(out))
	}
	return dir, os.Chmod(dir, 0o755)
})

// environ is that of a process: the programs come first in PATH, and nothing of
// the caller's own daemon is in it.
func environ(t *testing.T, home string, more ...string) []string {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + home, "GORACE=atexit_sleep_ms=0"}
	return append(env, more...)
}

// program is the path of acpd or acpctl.
func program(t *testing.T, name string) string {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(bin, name)
}

// process is a program that runs, in a process group of its own.
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

// begin starts a program, which ends with the test.
func begin(t *testing.T, env []string, argv ...string) *process {
	t.Helper()
	p := prepare(t, env, argv...)
	p.start()
	return p
}

// prepare is begin without the start.
func prepare(t *testing.T, env []string, argv ...string) *process {
	p := &process{t: t, cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir = env, "/"
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = time.Second // for children that hold its output open
	return p
}

func (p *process) start() {
	p.t.Helper()
	p.begun = time.Now()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		p.took = time.Since(p.begun)
		close(p.ended)
	}()
	p.t.Cleanup(p.end)
}

// end ends the process if it still runs, and shows what it said if the test failed.
func (p *process) end() {
	p.signalGroup(syscall.SIGCONT)
	p.signalGroup(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Errorf("%s does not end on SIGTERM", p.cmd)
		p.signalGroup(syscall.SIGKILL)
		<-p.ended
	}
	if log := p.stderr.String(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "\ngoroutine ") {
		p.t.Errorf("%s: a race or a panic", p.cmd)
	}
	if p.t.Failed() {
		said := p.stdout.String() + p.stderr.String()
		p.t.Logf("%s (%s):\n%s", p.cmd, p.cmd.ProcessState, said[max(0, len(said)-4096):])
	}
}

func (p *process) signal(s syscall.Signal) { p.cmd.Process.Signal(s) }

// signalGroup reaches the children too.
func (p *process) signalGroup(s syscall.Signal) {
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

// await waits for the end.
func (p *process) await() {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("%s does not end", p.cmd)
	}
}

// exits waits for the end, which must come with this exit code, and returns what
// was printed.
func (p *process) exits(code int) (stdout, stderr string) {
	p.t.Helper()
	p.await()
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("%s: exit code %d, want %d\n%s%s", p.cmd, got, code, p.stdout.String(), p.stderr.String())
	}
	return p.stdout.String(), p.stderr.String()
}

// fifo is a named pipe that processes of a script hold open, so that a test knows
// when the last of them has ended.
type fifo struct {
	t     *testing.T
	path  string
	lines chan string // closed when nobody has the fifo open any more
}

func newFifo(t *testing.T) *fifo {
	t.Helper()
	f := &fifo{t, filepath.Join(shortDir(t), "fifo"), make(chan string, 64)}
	if err := syscall.Mkfifo(f.path, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(f.lines)
		r, err := os.Open(f.path) // waits for a writer
		if err != nil {
			return
		}
		defer r.Close()
		for in := bufio.NewScanner(r); in.Scan(); {
			f.lines <- in.Text()
		}
	}()
	t.Cleanup(func() {
		if w, err := os.OpenFile(f.path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			w.Close()
		}
		<-read
	})
	return f
}

// expect waits for n lines.
func (f *fifo) expect(n int) {
	f.t.Helper()
	for i := range n {
		select {
		case _, open := <-f.lines:
			if !open {
				f.t.Fatalf("%d processes began, want %d", i, n)
			}
		case <-time.After(patience):
			f.t.Fatalf("%d processes began, want %d", i, n)
		}
	}
}

// gone waits until no process has the fifo open.
func (f *fifo) gone(within time.Duration) {
	f.t.Helper()
	for end := time.After(within); ; {
		select {
		case _, open := <-f.lines:
			if !open {
				return
			}
		case <-end:
			f.t.Fatalf("processes of the script still run after %s", within)
		}
	}
}

// inTime is a context that ends with the test and with its patience.
func inTime(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// receive waits for what must come.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v, open := <-from:
		if !open {
			t.Fatalf("%s does not come: it is over", what)
		}
		return v
	case <-time.After(patience):
		t.Fatalf("not within %s: %s", patience, what)
		panic("unreachable")
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
