package mailbox

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/acpd/acpd/oacp/message"
)

// Pins reads the keys that the agent trusts; an agent without the file trusts none.
func (a Agent) Pins() message.Pins {
	return ReadPins(filepath.Join(a.Dir(), "trust", "allowed_signers.yaml"))
}

// ReadPins reads a file of trusted keys. That it cannot be used is told in the pins.
func ReadPins(path string) message.Pins {
	data, err := ReadNamed(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return message.Pins{Source: path}
	case err != nil:
		return message.Pins{Source: path, Err: fmt.Errorf("cannot read pin file %s: %w", path, err)}
	}
	return message.ParsePins(path, data)
}

// Quarantine writes a copy of a message file into dead_letter/ beside the folder in
// which it lies, under a name of its own, and returns its path. The file stays.
func Quarantine(path string, data []byte) (string, error) {
	dir := filepath.Join(filepath.Dir(filepath.Dir(path)), "dead_letter")
	if err := makeFolder(dir); err != nil {
		return "", fmt.Errorf("quarantine: %w", err)
	}
	stem := fmt.Sprintf("%s.%.4x.%s", filepath.Base(path), sha256.Sum256(data), time.Now().UTC().Format("20060102T150405Z"))
	for n := range maxTwins {
		name := stem
		if n > 0 {
			name = fmt.Sprintf("%s.%d", stem, n)
		}
		copied := filepath.Join(dir, name)
		f, err := os.OpenFile(copied, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			_, err = f.Write(data)
			err = errors.Join(err, f.Sync(), f.Close())
		}
		if err != nil {
			return "", fmt.Errorf("quarantine: %w", err)
		}
		return copied, syncDir(dir)
	}
	return "", fmt.Errorf("quarantine: could not allocate a unique name for %s", stem)
}
