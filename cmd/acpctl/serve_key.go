package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/acpd/acpd/client"
)

// agentSocket is the socket that commands get: $ACP_SOCKET, or the one in the agents'
// folder of the daemon that serves.
func (a *app) agentSocket() (string, error) {
	path, set, err := client.AgentSocket()
	if err == nil && !set {
		home := a.home
		if home == "" {
			home, err = client.Home()
		}
		path = filepath.Join(home, client.AgentFolder, client.SocketName)
	}
	if err != nil {
		return "", err
	}
	return filepath.Abs(path) // a command may go elsewhere
}

// readKeyFile returns the key that a file holds, "" if there is none.
func readKeyFile(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return "", fmt.Errorf("--key-file: %w: make the folder first", err)
		}
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("--key-file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// writeKeyFile keeps a key in a file that its owner alone can read.
func writeKeyFile(path, key string) error {
	if path == "" {
		return nil
	}
	if old, err := readKeyFile(path); err == nil && old == key {
		return nil
	}
	made := path + ".new"
	if err := os.Remove(made); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(made, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(key + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(made, path)
}
