package transfer

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/store"
)

// recoverArrival settles what a crash left half stored: it is there, or it never came and
// will come again. Its temporary file goes, and nobody else's.
func (m *Mailer) recoverArrival(ctx context.Context, a *arrival) (err error) {
	name, err := m.findHalfStored(a)
	if err != nil {
		return err
	}
	if name == "" {
		defer func() {
			if err == nil {
				m.accounts.arrivals.Give(a.key.peer, 1)
			}
		}()
	}
	// It is found out again if that is lost.
	return m.cfg.DB.Write(ctx, false, func(tx *store.Tx) error {
		if name == "" {
			a.state = ""
			return sqlDeleteArrival(tx, a.key)
		}
		a.state, a.name = stored, name
		return sqlUpdateArrival(tx, a)
	})
}

// findHalfStored returns the name that a half-stored message has in the inbox, or had
// before it went into the archive; "" if it is in neither.
func (m *Mailer) findHalfStored(a *arrival) (string, error) {
	inbox, err := m.openInbox(a.key.mailbox)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer inbox.Close()
	if err := inbox.Remove(a.key.tempName()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if a.folder, err = inodeOf(inbox); err != nil {
		return "", err
	}
	return a.locate(inbox)
}

// locate returns a message's name in an inbox or its archive, "" if it is in neither.
func (a *arrival) locate(inbox *os.Root) (string, error) {
	name := a.key.name()
	if n := findMessage(inbox, name, a.size, a.key.hash); n != "" {
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
	return findMessage(archive, name, a.size, a.key.hash), nil
}
