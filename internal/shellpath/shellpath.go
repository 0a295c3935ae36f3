// Package shellpath reads and writes paths as a shell does. Shells leave a tilde as it is behind
// the = of --home=~/x, and so do files of environment variables.
package shellpath

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/acpd/acpd/internal/ownwords"
)

// ExpandTilde replaces ~ or ~NAME at the beginning of a path by the home directory.
func ExpandTilde(path string) (string, error) {
	name, rest, _ := strings.Cut(path, "/")
	if !strings.HasPrefix(name, "~") {
		return path, nil
	}
	if name == "~" {
		dir, err := FindUserHome()
		if err != nil {
			return "", ownwords.Errorf("%s: %w: name a path without ~", path, err)
		}
		return filepath.Join(dir, rest), nil
	}
	u, err := user.Lookup(name[1:])
	if err != nil {
		return "", ownwords.Errorf("%s: there is no user %q: name a path without ~", path, name[1:])
	}
	return filepath.Join(u.HomeDir, rest), nil
}

// FindUserHome returns the user's home directory.
func FindUserHome() (string, error) {
	dir, err := os.UserHomeDir()
	if err != nil {
		return "", ownwords.New("$HOME is not set")
	}
	return dir, nil
}

// Quote returns a path as one word of a shell command, which names the same file there.
func Quote(path string) string {
	if strings.HasPrefix(path, "~") {
		path = "./" + path
	}
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// Flag is the value of a flag that takes a path, with the tilde expanded.
type Flag string

// Set takes the value, as pflag.Value has it.
func (f *Flag) Set(path string) error {
	path, err := ExpandTilde(path)
	*f = Flag(path)
	return err
}

// String returns the path.
func (f *Flag) String() string { return string(*f) }

// Type returns what help calls the value.
func (f *Flag) Type() string { return "string" }
