package mailbox

import (
	"io/fs"
	"os"
)

// FindOpenFolders returns the inbox and outbox folders of a project that other users of the
// machine can get at, and whether they can write mail there, in any name. A folder on the way
// that they cannot go through protects all below it.
func (p Project) FindOpenFolders() (open []string, writable bool) {
	const pass, access, write = 0o011, 0o077, 0o022
	for _, dir := range []string{string(p.Home), p.Home.projectsDir(), p.Dir(), p.agentsDir()} {
		if !hasPermission(dir, pass) {
			return nil, false
		}
	}
	names, _ := p.ListAgents() // none if they cannot be listed
	for _, name := range names {
		a := Agent{p, name}
		if !hasPermission(a.Dir(), pass) {
			continue
		}
		for _, dir := range []string{a.Inbox(), a.Outbox()} {
			if hasPermission(dir, access) {
				open = append(open, dir)
				writable = writable || hasPermission(dir, write)
			}
		}
	}
	return open, writable
}

// hasPermission reports whether a folder has any of some permissions.
func hasPermission(dir string, any fs.FileMode) bool {
	info, err := os.Stat(dir)
	return err == nil && info.Mode().Perm()&any != 0
}
