package transfer

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/store"
)

// removeDeliveredCopy removes a delivered copy durably, if it is still the same message. If it
// cannot be removed, it stays in the queue with the reason, and each scan tries again.
func (m *Mailer) removeDeliveredCopy(ctx context.Context, inbox *os.Root, e *entry) {
	l, err := readMailFile(inbox, e.file)
	if errors.Is(err, errChanging) || err == nil && l.hash != e.hash {
		return // the next scan parks it
	}
	if err == nil {
		err = inbox.Remove(e.file)
	}
	if err == nil {
		err = durable.SyncRoot(inbox)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		m.ledger.removeEntry(e)
		m.recordGoneFiles(ctx, e.mailbox, []string{e.file}, nil, false)
		return
	}
	why := errorTextWithoutPath(err)
	if m.ledger.setEntryReason(e, "the copy here cannot be removed: "+why) {
		m.cfg.Log.Warn("mail: a delivered copy cannot be removed", "project", e.mailbox.project, "agent", e.mailbox.agent, "file", e.file, "err", why)
	}
}

// recordGoneFiles notes in the store that files are gone. With checkAll it also notes those that
// went while no daemon ran.
func (m *Mailer) recordGoneFiles(ctx context.Context, p mailbox, files []string, found map[string]foundFile, checkAll bool) {
	var unread, unwritten error
	if checkAll {
		unread = m.readStore(ctx, func(tx *store.Tx) error {
			all, err := sqlListDeliveredFiles(tx, p)
			for _, file := range all {
				if _, there := found[file]; !there {
					files = append(files, file)
				}
			}
			return err
		})
	}
	if len(files) > 0 {
		unwritten = m.writeStore(ctx, func(tx *store.Tx) error {
			for _, file := range files {
				if err := sqlMarkFileGone(tx, p, file); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if unread != nil || unwritten != nil {
		m.ledger.requestGoneFileCheck(p)
	}
}
