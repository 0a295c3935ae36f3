package transfer

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/oacp/message"
	"github.com/acpd/acpd/store"
)

// foundFile is a file as a scan finds it.
type foundFile struct {
	version fileVersion
	unfit   string
	since   time.Time // when it was last changed
}

// scanInbox updates the ledger from the files of an inbox, of some names or of all if scanned is
// nil: mail that is to be carried, and mail that came and is consumed. It returns the number of
// names that it has looked at. Only Run calls it.
func (m *Mailer) scanInbox(ctx context.Context, p mailbox, scanned names) (n int) {
	defer m.updateStatusFile(p)
	if scanned != nil && len(scanned) == 0 {
		return 0
	}
	logFailure := func(text string, err error) {
		if m.failures.addIfNew(p.dir(), err.Error()) {
			m.cfg.Log.Warn(text, "project", p.project, "agent", p.agent, "err", err)
		}
	}
	inbox, err := m.openInbox(p)
	if errors.Is(err, fs.ErrNotExist) {
		m.ledger.releaseInboxRoom(p) // whether its messages are consumed is not known
		return 0
	}
	if err != nil {
		logFailure("mail: an inbox cannot be opened", err)
		return 0
	}
	defer inbox.Close()
	peer, bound := m.ledger.findBoundPeer(p)
	found, n, err := listMailFiles(inbox, scanned, bound)
	if err != nil {
		logFailure("mail: an inbox cannot be read", err)
		return n
	}
	m.failures.clearFailure(p.dir())
	m.recordConsumedArrivals(ctx, p, inbox, found, scanned)
	if !bound {
		return n
	}
	changes, bound := m.ledger.updateEntries(p, found, scanned)
	if !bound {
		return n
	}
	m.scheduleRescan(p, changes.unsettled)
	m.publishEvents(changes.events)
	m.classifyEntries(ctx, peer, p, inbox, changes.settled)
	if len(changes.missing) > 0 || changes.checkGone {
		m.recordGoneFiles(ctx, p, changes.missing, found, changes.checkGone)
	}
	for _, e := range m.ledger.findRemovableEntries(p, scanned) {
		m.removeDeliveredCopy(ctx, inbox, e)
	}
	return n
}

// scheduleRescan scans files again when the first of them has been unchanged for long enough.
func (m *Mailer) scheduleRescan(p mailbox, u unsettledFiles) {
	if u.files != nil {
		time.AfterFunc(max(u.wait, settleTick), func() { m.ledger.markFilesDirty(p, u.files) })
	}
}

// listMailFiles finds the files of a folder that are, or might be taken for, messages: some
// names, or all if files is nil. If inspect is not set, it may only list their names. n is the
// number of names that it has looked at.
func listMailFiles(inbox *os.Root, files names, inspect bool) (found map[string]foundFile, n int, err error) {
	n, found = len(files), make(map[string]foundFile)
	if files == nil {
		all, err := fs.ReadDir(inbox.FS(), ".")
		n = len(all)
		if err != nil {
			return nil, n, err
		}
		files = make(names)
		for _, f := range all {
			switch {
			case !strings.HasSuffix(f.Name(), extension) || f.IsDir():
			case inspect:
				files[f.Name()] = struct{}{}
			default:
				found[f.Name()] = foundFile{}
			}
		}
	}
	for name := range files {
		info, err := inbox.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
			continue
		}
		if err != nil {
			return nil, n, err
		}
		since := info.ModTime()
		if now := time.Now(); since.After(now) {
			since = now
		}
		found[name] = foundFile{newFileVersion(info), explainUnfitFile(info), since}
	}
	return found, n, nil
}

// recordConsumedArrivals finds the arrivals in a mailbox that are consumed, and writes that to
// the store: they are no longer in the inbox, and the inbox is still the same folder.
func (m *Mailer) recordConsumedArrivals(ctx context.Context, p mailbox, inbox *os.Root, found map[string]foundFile, scanned names) {
	inode, err := readFolderInode(inbox)
	if err != nil {
		return // the next scan finds it too
	}
	missing, moved := m.ledger.matchArrivalsWithFiles(p, inode, found, scanned)
	// An arrival that came after the scan is not missing.
	ended := slices.DeleteFunc(missing, func(a *arrival) bool {
		_, err := inbox.Lstat(a.name)
		return !errors.Is(err, fs.ErrNotExist)
	})
	if len(ended) == 0 && len(moved) == 0 {
		return
	}
	for _, a := range ended {
		a.state = consumed
	}
	err = m.writeStore(ctx, func(tx *store.Tx) error {
		for _, a := range slices.Concat(ended, moved) {
			if err := sqlUpdateArrival(tx, a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil { // the next scan finds it again
		for _, a := range ended {
			a.state = stored
		}
		return
	}
	m.ledger.refileArrivals(ended...)
}

// classifyEntries reads the files of settled entries and their rows in the store, and applies
// that to the ledger.
func (m *Mailer) classifyEntries(ctx context.Context, peer identity.ID, p mailbox, inbox *os.Root, settled []*entry) {
	const atOnce = 100 // so that a read of the store is quick
	for batch := range slices.Chunk(settled, atOnce) {
		findings := make([]*finding, len(batch))
		for i, e := range batch {
			findings[i] = readSettledEntry(inbox, e)
		}
		err := m.readStore(ctx, func(tx *store.Tx) error {
			for _, f := range findings {
				if f.file == nil {
					continue
				}
				d, err := sqlReadDelivery(tx, p, f.entry.file)
				if err != nil {
					return err
				}
				if d != nil && d.peer == peer && !d.gone {
					f.delivered = d
				}
				if f.arrived, err = sqlHasArrived(tx, p, f.file.hash); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return // the entries are scanned again
		}
		again, events := m.ledger.applyFindings(p, peer, findings)
		m.scheduleRescan(p, again)
		m.publishEvents(events)
	}
}

// readSettledEntry reads the file of an entry.
func readSettledEntry(inbox *os.Root, e *entry) *finding {
	f := &finding{entry: e}
	if f.file, f.fault = readMailFile(inbox, e.file); f.fault == nil {
		var msg message.Message
		msg, f.fault = message.ParseCarriableMessage(f.file.data)
		f.rank = rankMessage(msg)
		f.file.data = nil
		if problems := msg.Validate(); problems != nil {
			f.flaw = problems[0]
		}
	}
	if f.fault != nil {
		f.flaw = f.fault.Error()
	}
	return f
}
