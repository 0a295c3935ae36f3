package ui

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/term"
)

// ErrNoTerminal says that nobody can be asked for a secret.
var ErrNoTerminal = errors.New("there is no terminal to ask at")

// ReadSecret asks for a line at the terminal of this process, whatever standard input is, and
// shows nothing of what is typed. If ctx ends it returns its error; a read that nothing can end
// then stays behind, and is the process's last.
func (t *Terminal) ReadSecret(ctx context.Context, prompt string) (string, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return "", ErrNoTerminal
	}
	before, err := term.GetState(int(tty.Fd()))
	if err != nil {
		tty.Close()
		return "", ErrNoTerminal
	}
	fmt.Fprint(tty, prompt)
	type line struct {
		text []byte
		err  error
	}
	done := make(chan line, 1)
	go func() {
		defer tty.Close()
		text, err := term.ReadPassword(int(tty.Fd()))
		done <- line{text, err}
	}()
	defer fmt.Fprintln(t.Err) // the line break that was typed is not shown either
	select {
	case got := <-done:
		return string(got.text), got.err
	case <-ctx.Done():
		term.Restore(int(tty.Fd()), before)
		return "", ctx.Err()
	}
}
