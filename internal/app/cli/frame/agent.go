package frame

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
)

// FindAgentSocket returns the path of the socket that commands get: $ACP_SOCKET, or the one in the
// agents' folder.
func (f *Frame) FindAgentSocket() (string, error) {
	path, set, err := client.AgentSocket()
	if err == nil && !set {
		path, err = f.FindStateDir()
		path = filepath.Join(path, client.AgentFolder, client.SocketName)
	}
	if err != nil {
		return "", err
	}
	return filepath.Abs(path) // a command may go elsewhere
}

// CheckAgentName checks the value of --name, "" if it is not given.
func CheckAgentName(name string) error {
	if name == "" {
		return nil
	}
	if err := identity.CheckName(name); err != nil {
		return UsageErrorf("--name: %w", err)
	}
	if identity.IsRoleName(name) {
		return UsageErrorf("--name: %s is the name of a role, which peers would not be shown: choose one like reviewer", name)
	}
	return nil
}

// ListEndSignals returns the signals that end a verb that serves, without the interrupt. Under nohup SIGHUP is
// not among them.
func ListEndSignals() []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return []os.Signal{syscall.SIGTERM}
	}
	return []os.Signal{syscall.SIGTERM, syscall.SIGHUP}
}
