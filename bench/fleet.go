package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// patience bounds every wait for a child beyond the time that its work takes.
const patience = 10 * time.Second

// loopback is the address at which every process listens.
const loopback = "127.0.0.1:0"

// A fleet is the running processes of one variant.
type fleet struct {
	ctx     context.Context // ends the processes
	variant variant
	bin     string // where the built programs are
	dir     string // for sockets and state; stopAll removes it
	procs   []*proc
}

// A proc is one child process.
type proc struct {
	cmd    *exec.Cmd
	hangUp func()         // asks it to end
	stdin  io.WriteCloser // of a role; nil for other programs
	lines  *bufio.Reader  // standard output, likewise
}

// newFleet makes one without processes.
func newFleet(ctx context.Context, v variant, bin string) (*fleet, error) {
	dir, err := os.MkdirTemp("", "bench")
	return &fleet{ctx: ctx, variant: v, bin: bin, dir: dir}, err
}

// startFleet starts the processes of v; the caller stops the fleet.
func startFleet(ctx context.Context, v variant, bin string) (*fleet, error) {
	f, err := newFleet(ctx, v, bin)
	if err != nil {
		return nil, err
	}
	if err := v.start(f); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", v.name, err), f.stopAll())
	}
	return f, nil
}

// joinPath names a file in the directory of the fleet.
func (f *fleet) joinPath(name string) string { return filepath.Join(f.dir, name) }

// spawnRole starts a role of the fleet's variant and waits until it is ready. It returns the address that
// the role announced.
func (f *fleet) spawnRole(role string, args ...string) (addr string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	p := &proc{cmd: exec.CommandContext(f.ctx, self, append([]string{roleWord, f.variant.name, role}, args...)...)}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return "", err
	}
	p.hangUp = func() { p.stdin.Close() }
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	p.lines = bufio.NewReader(stdout)
	if err := f.start(p); err != nil {
		return "", err
	}
	line, err := p.readLine(patience)
	if err != nil {
		return "", fmt.Errorf("waiting for the %s: %w", role, err)
	}
	addr, ok := strings.CutPrefix(line, readyWord+" ")
	if !ok {
		return "", fmt.Errorf("the %s printed %q and not that it is ready", role, line)
	}
	return addr, nil
}

// spawnProgram starts a program that the benchmark has built, and that ends by a signal. It does not read its
// standard input and would outlive this process, so the kernel ends it with the thread that starts it; the
// threads of the Go runtime stay.
func (f *fleet) spawnProgram(name string, stop syscall.Signal, args ...string) (*proc, error) {
	p := &proc{cmd: exec.CommandContext(f.ctx, filepath.Join(f.bin, name), args...)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.hangUp = func() { p.cmd.Process.Signal(stop) }
	return p, f.start(p)
}

// start starts a process. The receive buffer that quic-go asks for is more than many systems grant; all
// get along with the same.
func (f *fleet) start(p *proc) error {
	p.cmd.Env = append(os.Environ(), "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING=true")
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		return err
	}
	f.procs = append(f.procs, p)
	return nil
}

// readLine reads one line of the process's output. A process that keeps it waiting is killed.
func (p *proc) readLine(wait time.Duration) (string, error) {
	timer := time.AfterFunc(wait, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	line, err := p.lines.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

// listDaemons returns the processes that are not roles of this program.
func (f *fleet) listDaemons() (daemons []*proc) {
	for _, p := range f.procs {
		if p.stdin == nil {
			daemons = append(daemons, p)
		}
	}
	return daemons
}

// runCell has the process that asks load the variant with c for the given time, and counts the CPU time
// that these processes of the fleet spend meanwhile.
func (f *fleet) runCell(c cell, window time.Duration, counted []*proc) (sample, error) {
	before, err := sumCPUTime(counted)
	if err != nil {
		return sample{}, err
	}
	r, err := f.loadCell(c, window)
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w", f.variant.name, err)
	}
	after, err := sumCPUTime(counted)
	return r.toSample(after - before), err
}

func (f *fleet) loadCell(c cell, window time.Duration) (result, error) {
	driver := f.procs[len(f.procs)-1]
	if err := writeOrder(driver.stdin, c, window); err != nil {
		return result{}, err
	}
	line, err := driver.readLine(window + patience)
	if err != nil {
		return result{}, fmt.Errorf("the asker gave no result: %w", err)
	}
	return parseResult(line)
}

// sumCPUTime returns the CPU time that processes have spent so far.
func sumCPUTime(procs []*proc) (sum time.Duration, err error) {
	for _, p := range procs {
		d, err := cpuTime(p.cmd.Process.Pid)
		if err != nil {
			return 0, fmt.Errorf("CPU time of %s: %w", p.cmd.Path, err)
		}
		sum += d
	}
	return sum, nil
}

// stopAll ends the processes, those that ask before those that answer, and waits for them.
func (f *fleet) stopAll() error {
	var errs []error
	for i := len(f.procs) - 1; i >= 0; i-- {
		errs = append(errs, f.procs[i].stop(f.ctx))
	}
	f.procs = nil
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}

func (p *proc) stop(ctx context.Context) error {
	p.hangUp()
	timer := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	if err := p.cmd.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: %w", strings.Join(p.cmd.Args, " "), err)
	}
	return nil
}

// startFleets starts a fleet of each variant. The caller stops them.
func startFleets(ctx context.Context, all []variant, bin string) (fleets []*fleet, err error) {
	for _, v := range all {
		f, err := startFleet(ctx, v, bin)
		if err != nil {
			stopFleets(fleets, &err)
			return nil, err
		}
		fleets = append(fleets, f)
	}
	return fleets, nil
}

// stopFleets ends the processes of several fleets, and adds to err what fails.
func stopFleets(fleets []*fleet, err *error) {
	for _, f := range fleets {
		*err = errors.Join(*err, f.stopAll())
	}
}
