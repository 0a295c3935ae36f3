package mailbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// checkAccess finds whether other users of the machine can get at the mail of a project. One
// folder on the way that they cannot go through protects all below it.
func (p Project) checkAccess() []Finding {
	f := Finding{Name: "access", Severity: Fine, Message: "mailboxes — closed to other users of this machine"}
	for _, dir := range []string{string(p.Home), p.Home.projectsDir(), p.Dir(), p.agentsDir()} {
		if mode, ok := readFolderMode(dir); ok && mode&0o011 == 0 {
			return []Finding{f}
		}
	}
	names, _ := p.ListAgents() // checkWorkspace reports the error
	open, first, how := 0, "", ""
	for _, name := range names {
		a := Agent{p, name}
		if mode, ok := readFolderMode(a.Dir()); !ok || mode&0o011 == 0 {
			continue
		}
		for _, box := range []string{a.Inbox(), a.Outbox()} {
			mode, ok := readFolderMode(box)
			if !ok || mode&0o077 == 0 {
				continue
			}
			if open++; first == "" || mode&0o022 != 0 && how != canWrite {
				first, how = fmt.Sprintf("%s/%s has mode %04o", name, filepath.Base(box), mode), canRead
				if mode&0o022 != 0 {
					how = canWrite
				}
			}
		}
	}
	if open > 0 {
		f.Severity, f.Hint = Warn, "chmod go= "+string(p.Home)
		f.Message = fmt.Sprintf("%d mailbox folder(s) — open to other users of this machine, who can %s: %s", open, how, first)
	}
	return []Finding{f}
}

// What other users can do in a folder of messages that is open to them.
const (
	canRead  = "read mail"
	canWrite = "write mail in any name"
)

func readFolderMode(dir string) (fs.FileMode, bool) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, false
	}
	return info.Mode().Perm(), true
}
