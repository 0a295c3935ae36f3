// Package run starts one headless run of an agent program, confined, and ends it with all that
// it has started.
//
// What the package guarantees:
//
//   - The run sees the files that its [Spec] names, and what programs of the system need. It
//     opens no unix socket but those that the Spec names, so no other program of the same
//     user does its work for it. [Detect] says what confines on this machine; where nothing
//     does, a caller has to take away the program's tools for files and commands.
//   - Where [Confinement.ClosesLoopback] says so, it connects by TCP only to ports that its Spec
//     names, so that it does not reach what other programs of the same user serve on this machine.
//   - Its environment is the one in the Spec. Its standard input ends after the prompt.
//   - When [Run] returns, no process of the run is left: neither one that ignores TERM nor one
//     that has left its process group. The same holds if the process that called Run dies.
//   - What it prints is bounded. A process outside the run that holds its output open delays
//     [Run] by a second.
//
// A small process of the same binary stands between the caller and the program: it waits for
// whatever the program leaves behind, and ends it. So a program that uses this package calls
// [ServeHelper] first thing in main.
//
// What programs there are, how they are called and what their output means is left to package
// profile.
package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

// Spec says what to run, and what the run may see.
type Spec struct {
	Argv  []string // the program, as an absolute path, and its arguments
	Env   []string // its whole environment
	Dir   string   // its working directory; below one of Read or Write
	Stdin []byte   // what it reads before its standard input ends

	Read    []string // files and folders that it may read and execute; those that are missing are left out
	Write   []string // files and folders that it may change; they exist
	Sockets string   // the folder to whose unix sockets it may connect, also if they are made anew; "": none

	// Project is a folder of the owner's among Write, or "". What the owner's programs
	// obey in it, such as .git, stays as it is where the confinement keeps it: see [Confinement.KeepsObeyed].
	// If the run itself makes something that is obeyed, that is renamed when the run has ended: see [Exit].
	// The caller holds the folder by [LockProject].
	Project string

	Ports     []uint16 // TCP ports to which it may connect, on any machine, in addition to PortsOfAll
	FreePorts bool     // so for those that the system gives to programs that name none; it may take these, too

	Confinement Confinement

	Stdout    io.Writer     // what it prints, in its order; an error ends the run
	MaxOutput int64         // bytes on standard output, over which the run ends; 0: 16 MiB
	Grace     time.Duration // from TERM to KILL; 0: 2 s
}

// Exit says how a run ended.
type Exit struct {
	Code   int    // its exit code; 128 and the signal if a signal ended it
	Stderr string // the end of what it printed on standard error, only for the owner

	// Below the Spec's Project, as paths from there:
	Left   []string // what the run has made that is obeyed, under its new names
	Unseen []string // what could not be looked through, or not be renamed
	Gone   []string // what is obeyed and not in its place any more, or leads elsewhere
}

// ErrOutput says that a run printed more than it may.
var ErrOutput = errors.New("it printed more than it may")

const (
	defaultOutput = 16 << 20
	defaultGrace  = 2 * time.Second
	lastBytes     = 4 << 10 // of standard error that are kept

	// How long Run waits for the helper beyond Grace before it kills it. The helper needs
	// a few milliseconds.
	helperTime = 8 * time.Second

	leftTime = time.Second // how long Run waits for the end of the output after the end of the run
	leftPipe = 1 << 20     // bytes, the most that a pipe holds then
)

// Run runs a program to its end. If ctx ends first, Run ends the program with all its
// processes and returns the cause of ctx. A program that ends with an exit code other than 0 is
// no error. An error of the Spec's Stdout, and [ErrOutput], end the program too.
//
// The other errors say why the run did not begin. They name files of this machine and are for
// the owner.
func Run(ctx context.Context, s Spec) (Exit, error) {
	if err := context.Cause(ctx); err != nil {
		return Exit{}, err
	}
	obeyed := &project{}
	if s.Project != "" {
		var err error
		if obeyed, err = openProject(s.Project); err != nil {
			return Exit{}, fmt.Errorf("run: %w", err)
		}
		defer obeyed.root.Close()
	}
	order, err := s.makeOrder(obeyed.keep)
	if err != nil {
		return Exit{}, fmt.Errorf("run: %w", err)
	}
	p, err := startHelper(roleSupervisor, order)
	if err != nil {
		return Exit{}, fmt.Errorf("run: %w", err)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	last := &lastOutput{}
	wait := p.serveStreams(&s, last, fail)
	ended := p.awaitReport(ctx, time.Duration(order.GraceMS)*time.Millisecond+helperTime)
	p.lifeline.Close()
	for _, f := range []*os.File{p.stdout, p.stderr} {
		f.SetReadDeadline(time.Now().Add(leftTime)) // a process that is not of the run may hold it open
	}
	p.cmd.Wait()
	p.stdin.Close()
	wait()
	p.close()
	exit := Exit{Code: ended.Code, Stderr: last.String()}
	if s.Project != "" {
		exit.Left, exit.Unseen = obeyed.disarm()
		exit.Gone = obeyed.restore()
	}
	if err := context.Cause(ctx); err != nil {
		return exit, err
	}
	if ended.Err != "" {
		return exit, fmt.Errorf("run: %s", ended.Err)
	}
	return exit, nil
}

// serveStreams feeds the run its prompt and takes what it prints, until the streams end. It passes an error
// of the standard output to fail. The caller calls wait.
func (p *helper) serveStreams(s *Spec, last io.Writer, fail func(error)) (wait func()) {
	out := &boundedWriter{to: s.Stdout, left: s.MaxOutput}
	if out.left == 0 {
		out.left = defaultOutput
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := copyOutput(out, p.stdout); err != nil && !errors.Is(err, os.ErrClosed) {
			fail(err)
		}
		io.Copy(io.Discard, p.stdout)
	})
	serving.Go(func() { copyOutput(last, p.stderr) })
	serving.Go(func() {
		p.stdin.Write(s.Stdin) // a program may end without having read all
		p.stdin.Close()
	})
	return serving.Wait
}

// awaitReport waits until the run has ended. If ctx ends first, it has the helper end the run, and
// kills a helper that takes longer than patience.
func (p *helper) awaitReport(ctx context.Context, patience time.Duration) report {
	told := make(chan report, 1)
	go func() { told <- p.readReport() }()
	select {
	case ended := <-told:
		return ended
	case <-ctx.Done():
	}
	p.lifeline.Close()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case ended := <-told:
		return ended
	case <-limit.C:
		p.cmd.Process.Kill() // never seen; with bubblewrap the run ends with it
		return <-told
	}
}

// copyOutput copies to the end of the pipe. If the pipe's deadline comes first, it copies what lies
// in the pipe then, so a slow writer loses nothing, and does not wait for more.
func copyOutput(to io.Writer, from *os.File) error {
	_, err := io.Copy(to, from)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	defer from.SetReadDeadline(time.Now())
	from.SetReadDeadline(time.Time{}) // which else forbids even to read what is there
	raw, err := from.SyscallConn()
	if err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for left := leftPipe; left > 0; {
		n := 0
		if err := raw.Read(func(fd uintptr) bool { n, _ = syscall.Read(int(fd), buf); return true }); err != nil || n <= 0 {
			return err
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// order is what the helper gets from the caller.
type order struct {
	Argv    []string `json:"argv"`
	Env     []string `json:"env"`
	Dir     string   `json:"dir"`
	GraceMS int64    `json:"grace_ms"`

	Rules rules `json:"rules"` // that the program's process takes upon itself before it becomes the program
}

// report is what the helper says when all is over.
type report struct {
	Code int    `json:"code"`
	Err  string `json:"err,omitzero"` // why the program did not begin
}

// The roles of the helper. Its first argument, which a person cannot give by accident, names one.
const (
	roleSupervisor = "acpd-run-supervisor"
	roleConfined   = "acpd-run-confined"
)

// ServeHelper does what a helper does and ends the process, if this process was started as
// one. Else it returns at once.
func ServeHelper() {
	if len(os.Args) != 1 {
		return
	}
	switch os.Args[0] {
	case roleSupervisor:
		os.Exit(supervise())
	case roleConfined:
		becomeProgram()
		os.Exit(1)
	}
}

// The descriptors of a helper after the three of every process.
const (
	orderFD  = 3 // where it reads its order; for a supervisor, the end of the order means to end
	reportFD = 4 // where it says how it went
)

// helper is a started helper.
type helper struct {
	cmd            *exec.Cmd
	stdin          *os.File
	stdout, stderr *os.File
	lifeline       *os.File // closed: the helper ends the run
	report         *os.File
}

// startHelper starts a helper and gives it its order. The caller closes what it returns.
func startHelper(role string, o *order) (_ *helper, err error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	exe, err := findOwnProgram()
	if err != nil {
		return nil, err
	}
	var files [10]*os.File
	defer func() {
		for i, f := range files {
			if f != nil && (err != nil || i < 5) {
				f.Close()
			}
		}
	}()
	for i := range 5 { // files[:5] are the helper's ends
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		if i == 0 || i == 3 { // stdin, order: it reads
			files[i], files[5+i] = r, w
		} else {
			files[i], files[5+i] = w, r
		}
	}
	cmd := &exec.Cmd{
		Path: exe, Args: []string{role}, Env: helperEnv, Dir: "/",
		Stdin: files[0], Stdout: files[1], Stderr: files[2], ExtraFiles: files[3:5],
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // no terminal, and no signals of one
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	h := &helper{cmd: cmd, stdin: files[5], stdout: files[6], stderr: files[7], lifeline: files[8], report: files[9]}
	// An order is larger than a pipe only if the environment is; the helper reads it at once.
	if _, werr := h.lifeline.Write(append(text, '\n')); werr != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return nil, fmt.Errorf("the helper took no order: %w", werr)
	}
	return h, nil
}

// readReport waits until the helper is done.
func (p *helper) readReport() report {
	var r report
	text, err := io.ReadAll(io.LimitReader(p.report, 64<<10))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return report{Code: 1, Err: "the helper process ended without a word"}
	}
	return r
}

func (p *helper) close() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr, p.lifeline, p.report} {
		f.Close()
	}
}

// boundedWriter writes at most left bytes.
type boundedWriter struct {
	to   io.Writer
	left int64
}

func (w *boundedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > w.left {
		return 0, ErrOutput
	}
	w.left -= int64(len(p))
	if w.to == nil {
		return len(p), nil
	}
	return w.to.Write(p)
}

// lastOutput keeps the end of what is written to it.
type lastOutput struct{ text []byte }

func (t *lastOutput) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - lastBytes; over > lastBytes {
		t.text = bytes.Clone(t.text[over:])
	}
	return len(p), nil
}

func (t *lastOutput) String() string {
	return strings.ToValidUTF8(string(t.text[max(0, len(t.text)-lastBytes):]), "\uFFFD")
}
