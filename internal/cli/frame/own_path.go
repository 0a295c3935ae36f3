package frame

import (
	"os"
	"os/exec"
	"path/filepath"
)

// FindOwnPath returns the absolute path of this program: that of acpctl in PATH if it is the same
// file, since a package manager keeps that path and changes where it leads.
func FindOwnPath() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	if found, err := exec.LookPath("acpctl"); err == nil && filepath.IsAbs(found) {
		a, errA := os.Stat(own)
		b, errB := os.Stat(found)
		if errA == nil && errB == nil && os.SameFile(a, b) {
			return found, nil
		}
	}
	return own, nil
}
