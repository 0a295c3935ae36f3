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
)

// QuarantineFile writes a copy of a message file into dead_letter/ beside the file's folder,
// under a name of its own, and returns the path of the copy. The file stays.
func QuarantineFile(path string, data []byte) (string, error) {
	dir := filepath.Join(filepath.Dir(filepath.Dir(path)), "dead_letter")
	if err := makeFolder(dir); err != nil {
		return "", fmt.Errorf("quarantine: %w", err)
	}
	stem := fmt.Sprintf("%s.%.4x.%s", filepath.Base(path), sha256.Sum256(data), time.Now().UTC().Format("20060102T150405Z"))
	temp, err := stageFile(dir, stem, data)
	if err == nil {
		err = os.Chmod(temp, 0o600)
	}
	copied := filepath.Join(dir, stem)
	for n := 1; err == nil; n++ {
		if err = durable.RenameIfAbsent(temp, copied); err == nil {
			return copied, durable.SyncDir(dir)
		}
		if errors.Is(err, fs.ErrExist) && n < maxNumbered {
			copied, err = filepath.Join(dir, fmt.Sprintf("%s.%d", stem, n)), nil
		}
	}
	os.Remove(temp)
	return "", fmt.Errorf("quarantine: %w", err)
}
