package transfer

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// makeAgentFolders makes the folders of an agent that is about to be bound.
func (m *Mailer) makeAgentFolders(p mailbox, take bool) error {
	project, err := m.openFolder(path.Join("projects", p.project))
	if errors.Is(err, fs.ErrNotExist) {
		return kinds.Errorf(kinds.NotFound, "bind: there is no project %s in %s: make it with acpctl oacp init %[1]s --oacp-dir '%[2]s'", p.project, m.cfg.Home)
	}
	if err != nil {
		return ownwords.Errorf("bind: %w: the project's folder must be readable, and no link out of %s", err, m.cfg.Home)
	}
	defer project.Close()
	dir := path.Join("agents", p.agent)
	if !take {
		n, err := countMessageFiles(project, path.Join(dir, outboxDir))
		if err != nil {
			return ownwords.Errorf("bind: %w", err)
		}
		if n > 0 {
			return kinds.Errorf(kinds.Invalid, "bind: %s has sent %d messages of project %s from here, so it lives here: bind it with --take if it has moved", p.agent, n, p.project)
		}
	}
	for _, sub := range []string{inboxDir, outboxDir} {
		if err := project.MkdirAll(path.Join(dir, sub), folderMode); err != nil {
			return ownwords.Errorf("bind: %w", err)
		}
	}
	if err := m.checkAgentSpelling(p); errors.Is(err, fs.ErrNotExist) {
		return kinds.Errorf(kinds.Invalid, "bind: the folder of %s in project %s is called otherwise, or is a link: name project and agent as their folders are called", p.agent, p.project)
	} else if err != nil {
		return ownwords.Errorf("bind: %w", err)
	}
	return nil
}

// countMessageFiles counts the messages in a folder, which may be missing.
func countMessageFiles(root *os.Root, dir string) (n int, err error) {
	all, err := fs.ReadDir(root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, e := range all {
		if strings.HasSuffix(e.Name(), extension) && !isHiddenName(e.Name()) {
			n++
		}
	}
	return n, err
}

// Other users have no access to files and folders that are made here, as in package mailbox.
const (
	folderMode = 0o700
	fileMode   = 0o600
)

// openFolder opens a folder below the home. A root opens nothing outside of itself, not even
// through links. Each call opens the home again, because it may have been replaced.
func (m *Mailer) openFolder(dir string) (*os.Root, error) {
	home, err := os.OpenRoot(m.cfg.Home)
	if err != nil {
		return nil, err
	}
	defer home.Close()
	return home.OpenRoot(dir)
}

func (m *Mailer) openAgentFolder(p mailbox) (*os.Root, error) { return m.openFolder(p.dir()) }
func (m *Mailer) openInbox(p mailbox) (*os.Root, error) {
	return m.openFolder(path.Join(p.dir(), inboxDir))
}

// checkAgentSpelling returns [fs.ErrNotExist] if no agent has exactly this name. A file system
// that ignores case would open the folder by another spelling too, and so would a link.
func (m *Mailer) checkAgentSpelling(p mailbox) error {
	for _, of := range []struct {
		dir, name string
		link      bool // a symbolic link is allowed
	}{{"projects", p.project, true}, {path.Join("projects", p.project, "agents"), p.agent, false}} {
		dir, err := m.openFolder(of.dir)
		if err != nil {
			return err
		}
		entries, err := fs.ReadDir(dir.FS(), ".")
		dir.Close()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == of.name && (of.link || e.IsDir()) }) {
			return ownwords.Errorf("%s has no folder %s: %w", of.dir, of.name, fs.ErrNotExist)
		}
	}
	return nil
}
