package mailbox

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/acpd/acpd/internal/durable"
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
	temp, err := stage(dir, stem, data)
	if err == nil {
		err = os.Chmod(temp, 0o600)
	}
	for n := 0; err == nil && n < maxTwins; n++ {
		name := stem
		if n > 0 {
			name = fmt.Sprintf("%s.%d", stem, n)
		}
		copied := filepath.Join(dir, name)
		if err = durable.RenameNew(temp, copied); err == nil {
			return copied, durable.SyncDir(dir)
		}
		if errors.Is(err, fs.ErrExist) && n+1 < maxTwins {
			err = nil
		}
	}
	os.Remove(temp)
	return "", fmt.Errorf("quarantine: %w", err)
}
