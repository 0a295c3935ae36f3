// Package ownwords makes errors whose text has only words of this program, and finds the words of
// other errors that may be shown.
//
// The error of a library can quote what a stranger has sent: a certificate, a frame, the output of a
// command. Such a text must not reach a model, which could take it for an instruction. So the text of
// an error from here has what the source says, numbers, names that were checked, what the caller has
// passed and what the owner has written; of a foreign error it has the words that [Of] finds. A
// caller of [Errorf] must not pass a stranger's text as a string.
package ownwords

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Unknown are the words for an error whose own words may not be shown.
const Unknown = "acpd's log says more (log.level debug)"

// Own is implemented by errors whose text has only words of this program.
type Own interface {
	error
	// OwnWords returns the text that may be shown.
	OwnWords() string
}

type ownError struct {
	text   string
	causes []error // that errors.Is finds
	shown  []error // of whose words the text has those that may be shown
}

func (e *ownError) Error() string    { return e.text }
func (e *ownError) OwnWords() string { return e.text }
func (e *ownError) Unwrap() []error  { return e.causes }

// New returns an error with a text of this program.
func New(text string) error { return &ownError{text: text} }

// Errorf is [fmt.Errorf], %w included. Of an argument that is an error, the text has what [Of] returns.
func Errorf(format string, args ...any) error {
	e := &ownError{text: fmt.Errorf(format, Shown(args)...).Error(), shown: errorsIn(args)}
	switch wraps := fmt.Errorf(format, args...).(type) {
	case interface{ Unwrap() error }:
		e.causes = []error{wraps.Unwrap()}
	case interface{ Unwrap() []error }:
		e.causes = wraps.Unwrap()
	}
	return e
}

// Explain returns an error that has the text instead of that of err, which stays in its chain.
func Explain(err error, text string) error { return &ownError{text: text, causes: []error{err}} }

func errorsIn(args []any) (found []error) {
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			found = append(found, err)
		}
	}
	return found
}

// Shown returns args with each error replaced by one that has the words that [Of] finds.
func Shown(args []any) []any {
	shown := make([]any, len(args))
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			arg = New(Of(err))
		}
		shown[i] = arg
	}
	return shown
}

// Of returns the words of an error that may be shown, or [Unknown].
func Of(err error) string {
	if text, ok := Find(err); ok {
		return text
	}
	return Unknown
}

// Find returns the words of an error that may be shown: its own text if it is [Own], the words of
// the operating system and of Go's standard library for what a file, a socket or a context can do,
// else those of the errors that it wraps.
func Find(err error) (text string, found bool) {
	switch e := err.(type) {
	case nil:
		return "", false
	case Own:
		return e.OwnWords(), true
	case syscall.Errno:
		return e.Error(), true
	case *fs.PathError: // paths are the owner's
		return prefix(e.Op+" "+e.Path, e.Err)
	case *os.LinkError:
		return prefix(e.Op+" "+e.Old+" "+e.New, e.Err)
	case *os.SyscallError:
		return prefix(e.Syscall, e.Err)
	case *exec.Error:
		return prefix(e.Name, e.Err)
	case *exec.ExitError:
		return e.ProcessState.String(), true
	case *net.OpError:
		return prefix(e.Op, e.Err)
	case *net.DNSError:
		if e.IsNotFound {
			return "no such host", true
		}
		return "the name could not be looked up", true
	case *net.AddrError:
		return e.Err, true
	}
	switch err {
	case context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded, net.ErrClosed, exec.ErrNotFound,
		fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrClosed, fs.ErrInvalid, exec.ErrDot, strconv.ErrSyntax, strconv.ErrRange, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe:
		return err.Error(), true
	}
	if e, ok := err.(net.Error); ok && e.Timeout() {
		return "i/o timeout", true
	}
	const escapes = "path escapes from parent" // of os.Root, which has no error for it
	if err.Error() == escapes {
		return escapes, true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return Find(e.Unwrap())
	case interface{ Unwrap() []error }:
		var all []string
		for _, cause := range e.Unwrap() {
			if text, found := Find(cause); found {
				all = append(all, text)
			}
		}
		return strings.Join(all, "; "), len(all) > 0
	}
	return "", false
}

// FindForeign returns the texts of the errors in a chain that [Find] leaves out, for the log at level
// debug; "" if all of it has only words of this program.
func FindForeign(err error) string {
	if err == nil {
		return ""
	}
	var causes []error
	switch e := err.(type) {
	case *ownError:
		if causes = e.shown; causes == nil {
			causes = e.causes
		}
	case interface{ Unwrap() error }:
		causes = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		causes = e.Unwrap()
	case interface{ Cause() error }:
		causes = []error{e.Cause()}
	}
	var all []string
	if _, isOwn := err.(Own); !isOwn {
		if text, found := Find(err); !found || text != strings.ReplaceAll(err.Error(), "\n", "; ") { // which errors.Join puts between
			all = append(all, err.Error())
		}
	}
	for _, cause := range causes {
		if text := FindForeign(cause); text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}

// prefix returns the words of err behind what failed.
func prefix(what string, err error) (text string, found bool) {
	text, found = Find(err)
	return what + ": " + text, found
}
