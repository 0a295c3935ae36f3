package ui

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
)

// outlet is a standard output that remembers the first write that failed, because a verb has
// succeeded only when its data is written. Several goroutines may use it.
type outlet struct {
	to io.Writer

	mu     sync.Mutex // guards the rest, and that writes stay whole
	failed *UnwrittenError
	done   string // what stays done though it could not be written
}

// UnwrittenError is the error of a write to standard output.
type UnwrittenError struct{ reason error }

func (u *UnwrittenError) Error() string { return fmt.Sprintf("write to standard output: %v", u.reason) }

func (u *UnwrittenError) Unwrap() error { return u.reason }

// Write writes to standard output. After the first failure it writes nothing more, so that the
// output has no gap, and returns that failure.
func (o *outlet) Write(b []byte) (int, error) {
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

// GuardOutput puts an outlet before standard output.
func (t *Terminal) GuardOutput() { t.Out = &outlet{to: t.Out} }

// Unwritten returns the first error of standard output, nil if there was none.
func (t *Terminal) Unwritten() error {
	o, ok := t.Out.(*outlet)
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

// NoteDone keeps in words what has been done. They are told if it cannot be written.
func (t *Terminal) NoteDone(format string, args ...any) {
	if o, ok := t.Out.(*outlet); ok {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.done = "; " + fmt.Sprintf(format, args...)
	}
}

// TellUnwritten reports whether output could not be written, and tells of it and of what
// has been done.
func (t *Terminal) TellUnwritten(verb string) bool {
	failed := t.Unwritten()
	if failed != nil {
		fmt.Fprintf(t.Err, "%s: %v%s\n", verb, failed, t.Out.(*outlet).done)
	}
	return failed != nil
}
