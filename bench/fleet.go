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
	"time"
)

// patience bounds every wait for a child beyond the time its work takes.
const patience = 10 * time.Second

// A fleet is the running processes of one variant.
type fleet struct {
	ctx     context.Context // ends the processes
	variant string
	bin     string // where the built programs are
	dir     string // for sockets and state, removed by stop
	procs   []*proc
	rate    int // of the requests that load it, a second; 0: as many as come through
}

// A proc is one child process.
type proc struct {
	cmd    *exec.Cmd
	hangUp func()         // asks it to end
	stdin  io.WriteCloser // of a role; nil for a daemon
	lines  *bufio.Reader  // standard output, likewise
}

// newFleet makes one without processes.
func newFleet(ctx context.Context, v variant, bin string) (*fleet, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	return &fleet{ctx: ctx, variant: v.name, bin: v.binDir(bin), dir: dir}, nil
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

// spawnRole starts a role of the fleet's variant and waits until it is ready. It
// returns the address that the role announced.
func (f *fleet) spawnRole(roleName string, args ...string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(f.ctx, self, append([]string{"role", f.variant, roleName}, args...)...)
	cmd.Env = newQuietEnv()
	cmd.Stderr = os.Stderr
	p := &proc{cmd: cmd}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return "", err
	}
	p.hangUp = func() { p.stdin.Close() }
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	p.lines = bufio.NewReader(stdout)
	if err := cmd.Start(); err != nil {
		return "", err
	}
	f.procs = append(f.procs, p)
	line, err := p.readLine(patience)
	if err != nil {
		return "", fmt.Errorf("waiting for %s: %w", roleName, err)
	}
	addr, ok := strings.CutPrefix(line, readyWord+" ")
	if !ok {
		return "", fmt.Errorf("%s says %q and not that it is ready", roleName, line)
	}
	return addr, nil
}

// newQuietEnv returns the environment of a child. The receive buffer that quic-go asks for
// is more than many systems grant; all variants live with the same.
func newQuietEnv() []string {
	return append(os.Environ(), "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING=true")
}

// readLine reads one line of the process's output. A process that keeps it waiting is killed.
func (p *proc) readLine(wait time.Duration) (string, error) {
	timer := time.AfterFunc(wait, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	line, err := p.lines.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

// awaitWord waits until the process says the word.
func (p *proc) awaitWord(word string, wait time.Duration) error {
	line, err := p.readLine(wait)
	if err == nil && line != word {
		err = fmt.Errorf("it says %q", line)
	}
	if err != nil {
		return fmt.Errorf("waiting for %q: %w", word, err)
	}
	return nil
}

// lastProcess returns the process that was started last: the one that drives the load.
func (f *fleet) lastProcess() *proc { return f.procs[len(f.procs)-1] }

// runCell has the driver load the variant with c for the given time, and measures the
// CPU time that all processes of the fleet spend on it.
func (f *fleet) runCell(c cell, window time.Duration) (sample, error) {
	t, err := f.takeTurn(c, window, f.sumCPUTime)
	if err != nil {
		return sample{}, err
	}
	return t.toSample(), nil
}

// loadCell has the driver load the variant with c for the given time.
func (f *fleet) loadCell(c cell, window time.Duration) (result, error) {
	if err := writeOrder(f.lastProcess().stdin, c, window, f.rate); err != nil {
		return result{}, fmt.Errorf("%s: %w", f.variant, err)
	}
	line, err := f.lastProcess().readLine(window + patience)
	if err != nil {
		return result{}, fmt.Errorf("%s: the driver gave no result: %w", f.variant, err)
	}
	res, err := parseResult(line)
	if err != nil {
		return result{}, fmt.Errorf("%s: %w", f.variant, err)
	}
	return res, nil
}

// sumCPUTime returns the CPU time that all processes of the fleet have spent so far.
func (f *fleet) sumCPUTime() (time.Duration, error) {
	var sum time.Duration
	for _, p := range f.procs {
		d, err := cpuTime(p.cmd.Process.Pid)
		if err != nil {
			return 0, fmt.Errorf("CPU time of %s: %w", f.variant, err)
		}
		sum += d
	}
	return sum, nil
}

// stopLast ends the process that was started last, and waits for it.
func (f *fleet) stopLast() error {
	p := f.procs[len(f.procs)-1]
	f.procs = f.procs[:len(f.procs)-1]
	p.hangUp()
	timer := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	if err := p.cmd.Wait(); err != nil && f.ctx.Err() == nil {
		return fmt.Errorf("%s: %w", strings.Join(p.cmd.Args[1:], " "), err)
	}
	return nil
}

// stopAll ends the processes, those that ask before those that answer.
func (f *fleet) stopAll() error {
	var errs []error
	for len(f.procs) > 0 {
		errs = append(errs, f.stopLast())
	}
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}
