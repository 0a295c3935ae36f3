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
	return &fleet{ctx: ctx, variant: v.name, bin: v.binIn(bin), dir: dir}, nil
}

// startFleet starts the processes of v; the caller stops the fleet.
func startFleet(ctx context.Context, v variant, bin string) (*fleet, error) {
	f, err := newFleet(ctx, v, bin)
	if err != nil {
		return nil, err
	}
	if err := v.start(f); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", v.name, err), f.stop())
	}
	return f, nil
}

// path names a file in the directory of the fleet.
func (f *fleet) path(name string) string { return filepath.Join(f.dir, name) }

// spawn starts a role of the fleet's variant and waits until it is ready. It
// returns the address that the role announced.
func (f *fleet) spawn(roleName string, args ...string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(f.ctx, self, append([]string{"role", f.variant, roleName}, args...)...)
	cmd.Env = quietEnv()
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

// quietEnv is the environment of a child. The receive buffer that quic-go asks for
// is more than many systems grant; all variants live with the same.
func quietEnv() []string {
	return append(os.Environ(), "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING=true")
}

// readLine reads one line of the process's output. A process that keeps it waiting is killed.
func (p *proc) readLine(wait time.Duration) (string, error) {
	timer := time.AfterFunc(wait, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	line, err := p.lines.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

// expect waits until the process says the word.
func (p *proc) expect(word string, wait time.Duration) error {
	line, err := p.readLine(wait)
	if err != nil {
		return fmt.Errorf("waiting for %q: %w", word, err)
	}
	if line != word {
		return fmt.Errorf("waiting for %q: it says %q", word, line)
	}
	return nil
}

// driver is the process that drives the load.
func (f *fleet) driver() *proc { return f.procs[len(f.procs)-1] }

// run has the driver load the variant with c for the given time, and measures the
// CPU time that all processes of the fleet spend on it.
func (f *fleet) run(c cell, window time.Duration) (sample, error) {
	before, err := f.cpuTime()
	if err != nil {
		return sample{}, err
	}
	if err := writeOrder(f.driver().stdin, c, window); err != nil {
		return sample{}, fmt.Errorf("%s: %w", f.variant, err)
	}
	line, err := f.driver().readLine(window + patience)
	if err != nil {
		return sample{}, fmt.Errorf("%s: the driver gave no result: %w", f.variant, err)
	}
	after, err := f.cpuTime()
	if err != nil {
		return sample{}, err
	}
	res, err := parseResult(line)
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w", f.variant, err)
	}
	return res.sample(after - before), nil
}

// cpuTime is what all processes of the fleet have spent so far.
func (f *fleet) cpuTime() (time.Duration, error) {
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

// stop ends the processes, those that ask before those that answer.
func (f *fleet) stop() error {
	var errs []error
	for len(f.procs) > 0 {
		errs = append(errs, f.stopLast())
	}
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}
