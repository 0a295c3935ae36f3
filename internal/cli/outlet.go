package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
)

// outlet is standard output, which remembers the first write that failed: a verb is done
// only when what it had to say is written. Several goroutines may use it.
type outlet struct {
	to io.Writer

	mu     sync.Mutex // guards the rest, and that writes stay whole
	failed *unwritten
	done   string // what stays done though it could not be written
}

// unwritten is the error of a write to standard output.
type unwritten struct{ reason error }

func (u *unwritten) Error() string { return fmt.Sprintf("write to standard output: %v", u.reason) }

func (u *unwritten) Unwrap() error { return u.reason }

// Write writes to standard output. After the first failure it writes nothing more, so
// that there is no gap in what was written, and returns that failure.
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
		o.failed = &unwritten{err}
		return n, o.failed
	}
	return n, nil
}

// unwritten returns the first error of standard output, nil if there was none.
func (a *app) unwritten() error {
	o, ok := a.out.(*outlet)
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

// did keeps what has been done, in words for the case that it cannot be written.
func (a *app) did(format string, args ...any) {
	if o, ok := a.out.(*outlet); ok {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.done = "; " + fmt.Sprintf(format, args...)
	}
}

// finish tells of output that could not be written, and returns the exit code: a failure
// of the verb itself keeps its own.
func (a *app) finish(verb string, code int) int {
	failed := a.unwritten()
	if failed == nil {
		return code
	}
	fmt.Fprintf(a.err, "%s: %v%s\n", verb, failed, a.out.(*outlet).done)
	if code == 0 {
		return exitLocal
	}
	return code
}
