package transfer

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// DropFile moves a file out of a bound agent's inbox into its dead_letter folder, from which
// nothing is carried. It returns the file's path below the home.
func (m *Mailer) DropFile(_ context.Context, project, agent, file string) (string, error) {
	p := mailbox{project, agent}
	_, state, bound := m.ledger.findEntryState(p, file)
	switch {
	case !bound:
		return "", newNotBoundError("drop", p)
	case state == sending:
		return "", kinds.Errorf(kinds.Overloaded, "drop: %s is being delivered just now: look again in a moment", file)
	case file == "" || strings.ContainsAny(file, "/\x00") || !strings.HasSuffix(file, extension):
		return "", newFileNotFoundError("drop", p, file)
	}
	dir, err := m.openAgentFolder(p)
	if err != nil {
		return "", ownwords.Errorf("drop: %w", err)
	}
	defer dir.Close()
	from := path.Join(inboxDir, file)
	switch info, err := dir.Lstat(from); {
	case errors.Is(err, fs.ErrNotExist), err == nil && info.IsDir():
		return "", newFileNotFoundError("drop", p, file)
	case err != nil:
		return "", ownwords.Errorf("drop: %w", err)
	}
	if err := dir.MkdirAll(deadDir, folderMode); err != nil {
		return "", ownwords.Errorf("drop: %w", err)
	}
	for _, name := range makeNumberedNames(file) {
		to := path.Join(deadDir, name)
		if _, err := dir.Lstat(to); err == nil {
			continue
		}
		if err := dir.Rename(from, to); err != nil {
			return "", ownwords.Errorf("drop: %w", err)
		}
		m.ledger.markFilesDirty(p, names{file: {}})
		return path.Join(p.dir(), to), nil
	}
	return "", kinds.Errorf(kinds.Overloaded, "drop: %s holds %d files of that name: tidy it up", deadDir, maxNumbered)
}

// newFileNotFoundError returns the error for a file that a caller names and that is not there.
func newFileNotFoundError(op string, p mailbox, file string) error {
	return kinds.Errorf(kinds.NotFound, "%s: there is no %.200q in the inbox of %s: see acpctl oacp queue", op, file, p.agent)
}
