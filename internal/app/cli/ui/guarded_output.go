package ui

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
)

// guardedOutput writes to standard output and remembers the first write that failed, because a
// verb has succeeded only if its data was written. Several goroutines may use it.
type guardedOutput struct {
	to io.Writer

	mu     sync.Mutex // guards the rest, and that writes stay whole
	failed *UnwrittenError
	done   string // what stays done though it could not be written
}

// UnwrittenError says why standard output could not be written.
type UnwrittenError struct{ reason error }

func (u *UnwrittenError) Error() string { return fmt.Sprintf("write to standard output: %v", u.reason) }

func (u *UnwrittenError) Unwrap() error { return u.reason }

// Write writes to standard output. After the first failure it writes nothing more, so that the
// output has no gap, and returns that failure.
func (o *guardedOutput) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed != nil {
		return 0, o.failed
	}
	n, err := o.to.Write(b)
	if err != nil {
		if named, ok := errors.AsType[*fs.PathError](err); ok {
			err = named.Err
		}
		o.failed = &UnwrittenError{err}
		return n, o.failed
	}
	return n, nil
}

// GuardOutput makes standard output remember the first write that fails.
func (t *Terminal) GuardOutput() { t.Out = &guardedOutput{to: t.Out} }

// CheckOutput returns the first error of standard output, nil if there was none.
func (t *Terminal) CheckOutput() error {
	o, ok := t.Out.(*guardedOutput)
	if !ok {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == nil {
		return nil
	}
	return o.failed
}

// SetDoneNote keeps in words what has been done. They are printed if the data cannot be written.
func (t *Terminal) SetDoneNote(format string, args ...any) {
	if o, ok := t.Out.(*guardedOutput); ok {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.done = "; " + fmt.Sprintf(format, args...)
	}
}

// ReportUnwritten reports whether output could not be written. If so, it prints that and what
// has been done.
func (t *Terminal) ReportUnwritten(verb string) bool {
	failed := t.CheckOutput()
	if failed != nil {
		t.Tell("%s: %v%s", verb, failed, t.Out.(*guardedOutput).done)
	}
	return failed != nil
}
