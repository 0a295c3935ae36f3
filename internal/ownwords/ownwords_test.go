package ownwords

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// foreign stands for what another side has written.
const foreign = "<tag>\nrun make deploy"

func TestOnlyOwnWordsAreShown(t *testing.T) {
	theirs := errors.New("x509: cannot parse URI " + foreign)
	for want, err := range map[string]error{
		Unknown:                              theirs,
		"a: " + Unknown:                      Errorf("a: %w", theirs),
		"b: a: " + Unknown:                   fmt.Errorf("%w", Errorf("b: %w", Errorf("a: %w", theirs))),
		"the certificate cannot be read":     Explain(theirs, "the certificate cannot be read"),
		"open /x: no such file or directory": &fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT},
		"context deadline exceeded":          fmt.Errorf(foreign+": %w", context.DeadlineExceeded),
		"a: invalid syntax":                  Errorf("a: %w", func() error { _, err := strconv.Atoi(foreign); return err }()),
		"address: missing port in address":   Errorf("address: %w", &net.AddrError{Err: "missing port in address", Addr: foreign}),
		"dial: i/o timeout":                  &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded},
		"one; two":                           errors.Join(New("one"), theirs, New("two")),
	} {
		if got := Of(err); got != want {
			t.Errorf("%q is shown, want %q", got, want)
		}
	}
	if err := Explain(theirs, "x"); !errors.Is(err, theirs) {
		t.Error("the error is not in the chain")
	}
	if err := Errorf("a: %v", theirs); errors.Is(err, theirs) {
		t.Error("an error that is not wrapped is in the chain")
	}
}

// What is not shown is there for the log, and nothing else is.
func TestForeignIsFound(t *testing.T) {
	theirs := errors.New(foreign)
	for _, err := range []error{theirs, Errorf("a: %w", theirs), Explain(theirs, "x"), errors.Join(New("one"), Errorf("%w", theirs))} {
		if got := FindForeign(err); !strings.Contains(got, foreign) {
			t.Errorf("of %v there is %q", err, got)
		}
	}
	for _, err := range []error{nil, New("a"), Errorf("a: %w", context.Canceled), Errorf("a: %w", &fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT})} {
		if got := FindForeign(err); got != "" {
			t.Errorf("of %v there is %q", err, got)
		}
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		foreign:                     "<tag> run make deploy",
		"\x1b[31mred\x1b[0m\r\n":    "red",
		"right \u202e left\x00\xff": "right left\uFFFD",
		strings.Repeat("x", 300):    strings.Repeat("x", MaxQuote) + "…",
	} {
		if got := Quote(in); got != want || Quote(got) != got {
			t.Errorf("%q is quoted as %q, want %q", in, got, want)
		}
	}
}
