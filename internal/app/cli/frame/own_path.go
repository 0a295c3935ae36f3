package frame

import (
	"os"
	"os/exec"
	"path/filepath"
)

// FindOwnPath returns the absolute path of this program, as [FindLastingPath] does.
func FindOwnPath() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	return FindLastingPath("acpctl", own), nil
}

// FindLastingPath returns the path by which the program at path is written down for later: that of
// name in PATH if it leads to the same file, since a package manager keeps that path and changes
// where it leads. Else it returns path.
func FindLastingPath(name, path string) string {
	found, err := exec.LookPath(name)
	if err != nil || !filepath.IsAbs(found) {
		return path
	}
	a, errA := os.Stat(path)
	b, errB := os.Stat(found)
	if errA != nil || errB != nil || !os.SameFile(a, b) {
		return path
	}
	return found
}
