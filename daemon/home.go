package daemon

import (
	"cmp"
	"os"
	"path/filepath"
	"syscall"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/internal/statedir"
)

// home is the absolute path of a state directory.
type home string

// filePath returns the path of a file, or of a folder, in the directory.
func (h home) filePath(name string) string { return filepath.Join(string(h), name) }

func (h home) ownerSocketPath() string { return h.filePath(client.SocketName) }

// ResolveHome returns the state directory that dir means: dir itself, else $ACP_HOME,
// else ~/.acp. It is absolute and need not exist.
func ResolveHome(dir string) (string, error) {
	dir, err := shellpath.ExpandTilde(cmp.Or(dir, os.Getenv("ACP_HOME"), "~/.acp"))
	if err != nil {
		return "", ownwords.Errorf("state directory: %w with --home", err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", ownwords.Errorf("state directory: %w", err)
	}
	return abs, nil
}

// openHome makes the directory, or checks that it belongs to this user and that no other user can open it.
func openHome(dir string) (home, error) {
	h := home(dir)
	longest := filepath.Join(h.filePath(client.AgentFolder), client.HTTPSocketName)
	if n := len(longest); n > statedir.MaxSocketPath {
		return "", ownwords.Errorf("state directory: the socket's path %s has %d bytes, and this system takes %d: choose a shorter directory with --home or ACP_HOME", longest, n, statedir.MaxSocketPath)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", ownwords.Errorf("state directory: %w: name another with --home", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", ownwords.Errorf("state directory: %w", err)
	}
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != os.Geteuid() {
		return "", ownwords.Errorf("state directory: %s belongs to user %d and this is user %d: name a directory of your own with --home", dir, owner, os.Geteuid())
	}
	if info.Mode().Perm()&0o077 == 0 {
		return h, nil
	}
	// An empty one holds nothing that was ever open to others.
	files, err := os.ReadDir(dir)
	if err != nil {
		return "", ownwords.Errorf("state directory: %w", err)
	}
	if len(files) > 0 {
		return "", ownwords.Errorf("state directory: %s is open to others (mode %04o): chmod 700 %s", dir, info.Mode().Perm(), shellpath.Quote(dir))
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return "", ownwords.Errorf("state directory: %w", err)
	}
	return h, nil
}
