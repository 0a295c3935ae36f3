// Package ui prints what acpctl says: lines, tables, JSON, colours and times.
// The streams of a run decide what a person sees and what a script reads. The package knows
// the daemon's types, but asks no daemon.
package ui

import (
	"io"
	"math"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Terminal writes to the standard streams of one run.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer
	InTTY    bool // a person types
	OutTTY   bool // a person reads the data
	ErrTTY   bool // a person reads the talk
	Colours  bool // NO_COLOR is not set
	JSON     bool // data is printed as JSON
	ForModel bool // what peers wrote is printed for a model, under a cover
}

// NewTerminal returns the streams of this process.
func NewTerminal() Terminal {
	isTTY := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
	return Terminal{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTTY: isTTY(os.Stdin), OutTTY: isTTY(os.Stdout), ErrTTY: isTTY(os.Stderr),
		Colours: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
}

// ErrWidth returns the columns of the terminal on standard error, or math.MaxInt.
func (t *Terminal) ErrWidth() int {
	if f, ok := t.Err.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return math.MaxInt
}

// OutWidth returns the columns of the terminal on standard output, or math.MaxInt.
func (t *Terminal) OutWidth() int {
	if f, ok := t.outFile(); ok {
		if columns, lines, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 && lines > 0 {
			return columns
		}
	}
	return math.MaxInt
}

// outFile returns the file that standard output is.
func (t *Terminal) outFile() (*os.File, bool) {
	out := t.Out
	if o, ok := out.(*guardedOutput); ok {
		out = o.to
	}
	f, ok := out.(*os.File)
	return f, ok
}

// IsInBackground reports whether a shell has this process in the background of the terminal on standard input:
// a read of it would stop the process (tty(4), SIGTTIN).
func (t *Terminal) IsInBackground() bool {
	f, ok := t.In.(*os.File)
	if !ok || !t.InTTY {
		return false
	}
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group != unix.Getpgrp() // an error: it is not the terminal of this session
}

// DiscardTyped discards what was typed ahead and not read, if standard input is a terminal. Else
// whatever reads that terminal next, such as a shell, would get it. It reports whether it is one.
func (t *Terminal) DiscardTyped() (isTerminal bool) {
	f, ok := t.In.(*os.File)
	if ok = ok && t.InTTY; ok {
		discardTyped(int(f.Fd()))
	}
	return ok
}

// ShareStreams lets several goroutines write to the streams from now on. From then on, it is not a failure
// if output cannot be written.
func (t *Terminal) ShareStreams() {
	t.Out, t.Err = &sharedWriter{w: t.Out}, &sharedWriter{w: t.Err}
}

// sharedWriter writes for several goroutines, and always succeeds.
type sharedWriter struct {
	mu sync.Mutex // taken to write
	w  io.Writer
}

func (x *sharedWriter) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.w.Write(p)
	return len(p), nil
}
