package frame

import (
	"fmt"
	"path/filepath"

	"github.com/acpd/acpd/client"
)

// FindStateDir returns the absolute path of the state directory that --home or the environment
// names. It need not be there.
func (f *Frame) FindStateDir() (string, error) {
	dir := f.Home
	if dir == "" {
		var err error
		if dir, err = client.Home(); err != nil {
			return "", err
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the state directory: %w: name it with --home", err)
	}
	return abs, nil
}
