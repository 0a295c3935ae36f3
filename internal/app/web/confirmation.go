package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"

	"github.com/acpd/acpd/kinds"
)

// maxTries bounds how often a person may mistype the number.
const maxTries = 3

// errOtherNumber ends a server whose link may be with somebody else.
var errOtherNumber = errors.New("web: the number is not the one that the browser with the link shows: another program may have read the link, and gets nothing; run acpctl web again, with --no-open if that happens again")

// drawNumber returns a number of four digits. Anybody who has read the link sees one too, but has no terminal to
// type it in; nobody can try numbers.
func drawNumber() string {
	n, err := rand.Int(rand.Reader, big.NewInt(10_000))
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	return fmt.Sprintf("%04d", n)
}

// confirm asks for the number that the browser shows which has opened the link, and lets it in when that is
// typed. It returns an error if it is not, or not in time.
func (s *Server) confirm(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, s.numberTime)
	defer cancel()
	for range maxTries {
		typed, err := s.askNumber(asking)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case asking.Err() != nil:
			return kinds.Errorf(kinds.Timeout, "web: nobody has typed the number within %s: run acpctl web again", kinds.FormatDuration(s.numberTime))
		case err != nil:
			return fmt.Errorf("web: the number that the browser shows: %w", err)
		case s.gate.confirm(strings.TrimSpace(typed)):
			return nil
		}
	}
	return errOtherNumber
}

// serveNumber writes the page that shows the number. It asks for itself again until the number is typed, and
// gets the page then.
func (s *Server) serveNumber(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "<!doctype html><title>acpd</title><meta http-equiv=refresh content=1><p>Type this number where acpctl web runs:<h1>%s</h1>\n", s.gate.number)
}
