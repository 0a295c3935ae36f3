package transfer

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/store"
)

// recoverArrival decides on an arrival that a crash left half stored: it is stored if its file
// exists, else it is forgotten, and its sender sends it again. It removes only the temporary file
// of this message.
func (m *Mailer) recoverArrival(ctx context.Context, a *arrival) error {
	name, err := m.findHalfStoredFile(a)
	if err != nil {
		return err
	}
	// If that is lost, the next start finds it again.
	err = m.cfg.DB.Write(ctx, false, func(tx *store.Tx) error {
		if name == "" {
			a.state = ""
			return sqlDeleteArrival(tx, a.key)
		}
		a.state, a.name = stored, name
		return sqlUpdateArrival(tx, a)
	})
	if err == nil && name == "" {
		m.ledger.accounts.arrivals.Release(a.key.peer, 1)
	}
	return err
}

// findHalfStoredFile returns the name of a half-stored message in the inbox or its archive, or
// "" if it is in neither.
func (m *Mailer) findHalfStoredFile(a *arrival) (string, error) {
	inbox, err := m.openInbox(a.key.mailbox)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer inbox.Close()
	if err := inbox.Remove(a.key.tempFileName()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if a.folder, err = readFolderInode(inbox); err != nil {
		return "", err
	}
	return a.findFile(inbox)
}

// findFile returns a message's name in an inbox or its archive, or "" if it is in neither.
func (a *arrival) findFile(inbox *os.Root) (string, error) {
	name := a.key.localFileName()
	if n := findFileByHash(inbox, name, a.size, a.key.hash); n != "" {
		return n, durable.SyncRoot(inbox)
	}
	archive, err := inbox.OpenRoot("archive")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer archive.Close()
	return findFileByHash(archive, name, a.size, a.key.hash), nil
}
