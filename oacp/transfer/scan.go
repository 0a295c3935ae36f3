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
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/oacp/message"
	"github.com/acpd/acpd/store"
)

// foundFile is a file as a scan finds it.
type foundFile struct {
	version fileVersion
	unfit   string
	since   time.Time
}

// scanInbox brings what is known of an inbox up to date with its files, of some names or of
// all for nil: mail that is to be carried, and mail that came and is consumed. It returns
// how many names it has gone through. Only Run calls it.
func (m *Mailer) scanInbox(ctx context.Context, p mailbox, scanned names) (n int) {
	defer m.updateStatusFile(p)
	if scanned != nil && len(scanned) == 0 {
		return 0
	}
	inbox, err := m.openInbox(p)
	if err != nil {
		// A folder that is gone says nothing of its messages.
		if !errors.Is(err, fs.ErrNotExist) && m.failures.isNew(p.dir(), err.Error()) {
			m.cfg.Log.Warn("mail: an inbox cannot be opened", "project", p.project, "agent", p.agent, "err", err)
		}
		if errors.Is(err, fs.ErrNotExist) {
			m.ledger.releaseInbox(p)
		}
		return 0
	}
	defer inbox.Close()
	peer, bound := m.ledger.boundPeer(p)
	found, n, err := listFiles(inbox, scanned, bound)
	if err != nil {
		if m.failures.isNew(p.dir(), err.Error()) {
			m.cfg.Log.Warn("mail: an inbox cannot be read", "project", p.project, "agent", p.agent, "err", err)
		}
		return n
	}
	m.failures.clear(p.dir())
	m.findConsumed(ctx, p, inbox, found, scanned)
	if !bound {
		return n
	}
	changes, bound := m.ledger.updateEntries(p, found, scanned)
	if !bound {
		return n
	}
	m.scanLater(p, changes.unsettled)
	m.tell(changes.events)
	m.classifyEntries(ctx, peer, p, inbox, changes.settled)
	if len(changes.missing) > 0 || changes.checkGone {
		m.recordGone(ctx, p, changes.missing, found, changes.checkGone)
	}
	for _, e := range m.ledger.removable(p, scanned) {
		m.removeDelivered(ctx, inbox, e)
	}
	return n
}

// scanLater has files scanned again when the first of them has rested.
func (m *Mailer) scanLater(p mailbox, u unsettled) {
	if u.files != nil {
		time.AfterFunc(max(u.wait, settleTick), func() { m.ledger.noteChanged(p, u.files) })
	}
}

// listFiles finds the files of a folder that are, or might be taken for, messages, and
// looks closer at them if it is asked to. n is how many names it has gone through.
func listFiles(inbox *os.Root, files names, inspect bool) (found map[string]foundFile, n int, err error) {
	found = make(map[string]foundFile)
	inspectFile := func(name string) error {
		info, err := inbox.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
			return nil
		}
		if err != nil {
			return err
		}
		found[name] = foundFile{versionOf(info), unfit(info), arrivedAt(info, time.Now())}
		return nil
	}
	if files != nil {
		for name := range files {
			if err := inspectFile(name); err != nil {
				return nil, len(files), err
			}
		}
		return found, len(files), nil
	}
	d, err := inbox.Open(".")
	if err != nil {
		return nil, 0, err
	}
	defer d.Close()
	all, err := d.ReadDir(-1)
	if err != nil {
		return nil, len(all), err
	}
	for _, f := range all {
		if !strings.HasSuffix(f.Name(), extension) || f.IsDir() {
			continue
		}
		if !inspect {
			found[f.Name()] = foundFile{}
		} else if err := inspectFile(f.Name()); err != nil {
			return nil, len(all), err
		}
	}
	return found, len(all), nil
}

// findConsumed finds what is consumed of the mail that came to a mailbox: it is no more in
// the inbox, while the inbox is there, and not another in its place.
func (m *Mailer) findConsumed(ctx context.Context, p mailbox, inbox *os.Root, found map[string]foundFile, scanned names) {
	inode, err := inodeOf(inbox)
	if err != nil {
		return // the next scan finds it too
	}
	missing, moved := m.ledger.matchArrivals(p, inode, found, scanned)
	// One that came after the scan is not missing.
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
	m.writeStore(ctx, func(tx *store.Tx) error {
		for _, a := range slices.Concat(ended, moved) {
			if err := sqlUpdateArrival(tx, a); err != nil {
				return err
			}
		}
		return nil
	})
	m.ledger.endArrivals(ended)
}

// classifyEntries reads the files of entries that have settled and what the store knows of
// them, and has the ledger decide what becomes of them.
func (m *Mailer) classifyEntries(ctx context.Context, peer identity.ID, p mailbox, inbox *os.Root, settled []*entry) {
	const atOnce = 100 // so that a read of the store is quick
	for batch := range slices.Chunk(settled, atOnce) {
		findings := make([]*finding, len(batch))
		for i, e := range batch {
			findings[i] = readSettled(inbox, e)
		}
		err := m.readStore(ctx, func(tx *store.Tx) (err error) {
			for _, f := range findings {
				if f.file == nil {
					continue
				}
				d := &f.delivered
				if d.hash, d.at, d.consumed, d.known, err = sqlDelivery(tx, peer, p, f.entry.file); err != nil {
					return err
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
		again, events := m.ledger.classify(p, peer, findings)
		m.scanLater(p, again)
		m.tell(events)
	}
}

// readSettled reads the file of an entry.
func readSettled(inbox *os.Root, e *entry) *finding {
	f := &finding{entry: e}
	if f.file, f.fault = readMailFile(inbox, e.file); f.fault == nil {
		var msg message.Message
		msg, f.fault = message.Carriable(f.file.data)
		f.rank = rankOf(msg)
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

// recordGone notes in the store that files are gone; with prune also those that went while
// nobody looked.
func (m *Mailer) recordGone(ctx context.Context, p mailbox, files []string, found map[string]foundFile, checkAll bool) {
	if checkAll {
		err := m.readStore(ctx, func(tx *store.Tx) error {
			all, err := sqlDeliveredFiles(tx, p)
			for _, file := range all {
				if _, there := found[file]; !there {
					files = append(files, file)
				}
			}
			return err
		})
		if err != nil {
			m.ledger.recheckGone(p)
		}
	}
	if len(files) == 0 {
		return
	}
	err := m.writeStore(ctx, func(tx *store.Tx) error {
		for _, file := range files {
			if err := sqlMarkGone(tx, p, file); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		m.ledger.recheckGone(p)
	}
}

// removeDelivered removes a delivered copy, durably, if it is still the same message. One that
// cannot be removed stays in the queue with the reason, and is tried at each scan.
func (m *Mailer) removeDelivered(ctx context.Context, inbox *os.Root, e *entry) {
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
		m.recordGone(ctx, e.mailbox, []string{e.file}, nil, false)
		return
	}
	why := withoutPath(err)
	if m.ledger.setReason(e, "the copy here cannot be removed: "+why) {
		m.cfg.Log.Warn("mail: a delivered copy cannot be removed", "project", e.mailbox.project, "agent", e.mailbox.agent, "file", e.file, "err", why)
	}
}
