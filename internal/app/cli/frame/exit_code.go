package frame

import (
	"context"
	"errors"
	"fmt"

	"github.com/acpd/acpd/kinds"
)

// Exit codes that are not in the code table.
const (
	ExitLocal       = 1
	ExitUsage       = 2
	ExitTimeout     = 3
	ExitRefused     = 4
	ExitNoDaemon    = 6
	ExitFailed      = 7
	ExitKept        = 8
	ExitInterrupted = 130
)

// UsageError says what is wrong with a command line.
type UsageError struct{ error }

// UsageErrorf returns a [UsageError].
func UsageErrorf(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// hint adds a remedy to an error.
type hint struct {
	error
	next string
}

func (h hint) Unwrap() error { return h.error }

// WithHint returns err with a remedy behind its text: what can be typed next.
func WithHint(err error, next string) error { return hint{err, next} }

// Exit sets the exit code, as an error whose reason has been printed.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// ClassifyError returns err in the form that is printed, and the exit code for it.
func (f *Frame) ClassifyError(ctx context.Context, err error) (*kinds.Error, int) {
	_, wrong := errors.AsType[UsageError](err)
	coded, isCoded := errors.AsType[*kinds.Error](err)
	switch {
	case ctx.Err() != nil, errors.Is(err, context.Canceled): // by an interrupt, or by a signal that a verb takes as one
		return kinds.Errorf(kinds.Cancelled, "interrupted"), ExitInterrupted
	case !f.understood || wrong:
		return newLocalError(kinds.Invalid, err), ExitUsage
	case isCoded:
		return coded, FindExitCode(coded)
	}
	return newLocalError(kinds.Internal, err), ExitLocal
}

// newLocalError returns an error of this machine with its whole text, which is about what the user has
// typed, or about a file of his.
func newLocalError(code kinds.Code, err error) *kinds.Error {
	return &kinds.Error{Code: code, Message: err.Error(), Retryable: code.Info().Retryable}
}

// FindExitCode returns the exit code that the code table has for e. If the other side did not raise
// the error, ExitFailed becomes ExitLocal.
func FindExitCode(e *kinds.Error) int {
	code := e.Code.Info().Exit
	if code == ExitFailed && e.From == "" {
		return ExitLocal
	}
	return code
}
