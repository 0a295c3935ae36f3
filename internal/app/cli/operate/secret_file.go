package operate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/internal/durable"
)

const maxSecretFile = 4 << 10 // bytes

// readSecretFile returns the one line of a file that only its owner can read. With - for the path it is
// a line of standard input, or what a person types at prompt, unseen.
func (v *verbs) readSecretFile(ctx context.Context, flag, path, prompt string) (string, error) {
	var text string
	var err error
	switch {
	case path == "-" && v.InTTY:
		text, err = v.ReadSecret(ctx, prompt)
		if errors.Is(err, ui.ErrNoTerminal) {
			return "", frame.UsageErrorf("%s: %w: name a file", flag, err)
		}
	case path == "-":
		text, err = v.ReadLine(ctx)
	default:
		return readPrivateLine(flag, path)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	return text, checkNotEmpty(flag, text)
}

// readPrivateLine returns the one line of a file that only its owner can read.
func readPrivateLine(flag, path string) (string, error) {
	data, err := durable.ReadPrivateFile(path, maxSecretFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: there is no file %s: write the secret into it, readable only by you (chmod 600)", flag, path)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	line, rest, _ := strings.Cut(string(data), "\n")
	if strings.TrimSpace(rest) != "" {
		return "", fmt.Errorf("%s: %s has several lines: write only the secret", flag, path)
	}
	text := strings.TrimSuffix(line, "\r")
	return text, checkNotEmpty(flag, text)
}

func checkNotEmpty(flag, text string) error {
	if text == "" {
		return frame.UsageErrorf("%s: it is empty: write the secret", flag)
	}
	return nil
}

// makeAbsolute returns a path as the daemon, which runs in another directory, finds it.
func makeAbsolute(flag, path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	return absolute, nil
}
