package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/wire"
)

// argument reads what an argument stands for: "-" is standard input, "@file" what
// is in a file, each without the line break at its end; anything else is itself.
func (a *app) argument(ctx context.Context, name, arg string) (string, error) {
	var text, from string
	var err error
	switch path, isFile := strings.CutPrefix(arg, "@"); {
	case arg == "-" && a.inTaken:
		return "", usagef("%s: only one argument can be standard input", name)
	case arg == "-":
		a.inTaken = true
		from = "standard input"
		text, err = a.readAll(ctx)
	case isFile:
		from = path
		text, err = readFile(path)
	default:
		text = arg
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if from != "" {
		a.read = append(a.read, fmt.Sprintf("%s: %s has %d bytes", name, from, len(text)))
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	}
	if !utf8.ValidString(text) {
		return "", usagef("%s: not valid UTF-8", name)
	}
	return text, nil
}

// object is an argument that must be a JSON object.
func (a *app) object(ctx context.Context, name, arg string) (jsontext.Value, error) {
	text, err := a.argument(ctx, name, arg)
	if err != nil {
		return nil, err
	}
	v, err := jsontext.NewDecoder(strings.NewReader(text)).ReadValue()
	switch wrong, ok := errors.AsType[*jsontext.SyntacticError](err); {
	case ok && errors.Is(err, jsontext.ErrDuplicateName):
		return nil, usagef("%s: the name %q stands there twice", name, wrong.JSONPointer.LastToken())
	case err != nil, v.Kind() != '{', !jsontext.Value(text).IsValid():
		return nil, usagef("%s: expected a JSON object", name)
	}
	return jsontext.Value(text), nil
}

func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%w: a text that begins with @ can be given on standard input, as -", err)
	}
	defer f.Close()
	text, err := readBounded(f)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return text, err
}

// readBounded reads what a message can hold.
func readBounded(r io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, wire.MaxMaxMessage+1))
	if err == nil && len(b) > wire.MaxMaxMessage {
		err = fmt.Errorf("over %d MiB, more than any message can hold", wire.MaxMaxMessage>>20)
	}
	return string(b), err
}

// readAll reads standard input, until an interrupt. The goroutine that is left
// then, blocked in a read that nothing can end, is the process's last.
func (a *app) readAll(ctx context.Context) (string, error) {
	return await(ctx, func() (string, error) { return readBounded(a.in) })
}

func await(ctx context.Context, read func() (string, error)) (string, error) {
	type answer struct {
		text string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		text, err := read()
		done <- answer{text, err}
	}()
	select {
	case got := <-done:
		return got.text, got.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// readLine reads a line of standard input byte by byte, so that what follows
// stays there.
func (a *app) readLine(ctx context.Context) (string, error) {
	return await(ctx, func() (string, error) {
		const longest = 4 << 10 // an invitation's limit too
		var line []byte
		for b := [1]byte{}; len(line) <= longest; {
			n, err := a.in.Read(b[:])
			if n == 1 && b[0] != '\n' {
				line = append(line, b[0])
			}
			if n == 1 && b[0] == '\n' || err == io.EOF {
				return strings.TrimSpace(string(line)), nil
			}
			if err != nil {
				return "", err
			}
		}
		return "", fmt.Errorf("a line of over %d bytes", longest)
	})
}

// milliseconds checks a duration flag, which is 0 where it is not given.
func milliseconds(cmd *cobra.Command, name string, d, most time.Duration) (uint64, error) {
	if cmd.Flags().Changed(name) && (d < time.Millisecond || d > most) {
		return 0, usagef("--%s: expected a duration of 1ms to %s", name, most)
	}
	return uint64(d.Milliseconds()), nil
}
