package frame

import (
	"context"
	"errors"
	"fmt"

	"github.com/acpd/acpd/kinds"
)

// Exit codes beside those of the code table.
const (
	ExitLocal       = 1
	ExitUsage       = 2
	ExitTimeout     = 3
	ExitRefused     = 4
	ExitFailed      = 7
	ExitInterrupted = 130
)

// UsageError is the error of a command line that is wrong.
type UsageError struct{ error }

// Usagef returns a [UsageError].
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// hint is an error with a remedy.
type hint struct {
	error
	next string
}

func (h hint) Unwrap() error { return h.error }

// WithHint returns err with a remedy behind its text: what can be typed next.
func WithHint(err error, next string) error { return hint{err, next} }

// Exit is an error whose reason has been told: it only sets the exit code.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Classify returns an error in the form that is printed, and its exit code.
func (f *Frame) Classify(ctx context.Context, err error) (*kinds.Error, int) {
	_, wrong := errors.AsType[UsageError](err)
	coded, isCoded := errors.AsType[*kinds.Error](err)
	switch {
	case ctx.Err() != nil:
		return kinds.Errorf(kinds.Cancelled, "interrupted"), ExitInterrupted
	case !f.understood || wrong:
		return kinds.Errorf(kinds.Invalid, "%v", err), ExitUsage
	case isCoded:
		return coded, ExitCodeOf(coded)
	}
	return kinds.Errorf(kinds.Internal, "%v", err), ExitLocal
}

// ExitCodeOf returns the exit code of the code table. ExitFailed is for errors that the other
// side raised; otherwise it becomes ExitLocal.
func ExitCodeOf(e *kinds.Error) int {
	code := e.Code.Info().Exit
	if code == ExitFailed && e.From == "" {
		return ExitLocal
	}
	return code
}
