package transfer

import (
	"context"
	"errors"
	"fmt"
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

// foundFile is a file as a look into a folder finds it.
type foundFile struct {
	version fileVersion
	unfit   string
	since   time.Time
}

// scanInbox looks at files of a folder, all of them for nil: for mail that is to be
// carried, and for mail that came and is consumed. It returns how many names it has gone
// through. Only Run calls it.
func (m *Mailer) scanInbox(ctx context.Context, p mailbox, files names) (n int) {
	defer m.updateStatusFile(p)
	if files != nil && len(files) == 0 {
		return 0
	}
	inbox, err := m.openInbox(p)
	if err != nil {
		// A folder that is gone says nothing of its messages.
		if !errors.Is(err, fs.ErrNotExist) && m.isNewFailure(p.dir(), err.Error()) {
			m.cfg.Log.Warn("mail: an inbox cannot be opened", "project", p.project, "agent", p.agent, "err", err)
		}
		if errors.Is(err, fs.ErrNotExist) {
			m.releaseInbox(p)
		}
		return 0
	}
	defer inbox.Close()
	peer, bound := m.boundPeer(p)
	found, n, err := listFiles(inbox, files, bound)
	if err != nil {
		if m.isNewFailure(p.dir(), err.Error()) {
			m.cfg.Log.Warn("mail: an inbox cannot be read", "project", p.project, "agent", p.agent, "err", err)
		}
		return n
	}
	m.clearFailure(p.dir())
	m.findConsumed(ctx, p, inbox, found, files)

	if !bound {
		return n
	}
	m.mu.Lock()
	s := m.bound[p]
	if s == nil {
		m.mu.Unlock()
		return n
	}
	ripe, left, prune := m.updateEntries(s, found, files)
	m.unlockAndTell()
	m.classifyEntries(ctx, peer, p, inbox, ripe)
	if len(left) > 0 || prune {
		m.recordGone(ctx, p, left, found, prune)
	}
	m.mu.Lock()
	var done []*entry
	if s := m.bound[p]; s != nil {
		done = s.removable(files)
	}
	m.mu.Unlock()
	for _, e := range done {
		m.removeDelivered(ctx, inbox, e)
	}
	return n
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

// classifyEntries reads files that rest and decides what is to become of them.
func (m *Mailer) classifyEntries(ctx context.Context, peer identity.ID, p mailbox, inbox *os.Root, settled []*entry) {
	const atOnce = 100 // so that a read of the database is quick
	for batch := range slices.Chunk(settled, atOnce) {
		type verdict struct {
			known     bool
			delivered [32]byte
			at        time.Time
			consumed  bool
			arrived   bool
		}
		files := make([]*mailFile, len(batch))
		faults := make([]error, len(batch))
		flaws := make([]string, len(batch)) // why it is no valid message
		ranks := make([]int, len(batch))
		verdicts := make([]verdict, len(batch))
		for i, e := range batch {
			if files[i], faults[i] = readMailFile(inbox, e.file); faults[i] == nil {
				var m message.Message
				m, faults[i] = message.Carriable(files[i].data)
				ranks[i] = rankOf(m)
				files[i].data = nil
				if problems := m.Validate(); problems != nil {
					flaws[i] = problems[0]
				}
			}
			if faults[i] != nil {
				flaws[i] = faults[i].Error()
			}
		}
		err := m.readStore(ctx, func(tx *store.Tx) (err error) {
			for i, e := range batch {
				if files[i] == nil {
					continue
				}
				v := &verdicts[i]
				if v.delivered, v.at, v.consumed, v.known, err = sqlDelivery(tx, peer, p, e.file); err != nil {
					return err
				}
				if v.arrived, err = sqlHasArrived(tx, p, files[i].hash); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return // the entries are looked at again
		}
		m.mu.Lock()
		s, now := m.bound[p], time.Now()
		var invalid unsettled
		for i, e := range batch {
			if s == nil || s.Peer != peer || e.state != settling {
				continue // the next look is at it as it is bound now
			}
			l, v := files[i], verdicts[i]
			switch _, unfit := errors.AsType[unfitError](faults[i]); {
			case l != nil && l.version != e.version:
				continue // the next look finds another file
			case l != nil:
				e.hash, e.rank = l.hash, ranks[i]
			case !unfit: // it may be readable at the next look
				e.reason = faults[i].Error()
				continue
			}
			if flaws[i] != "" {
				e.restTime = invalidRestTime
			}
			switch wait := e.restLeft(now); {
			case v.known && v.delivered == l.hash:
				e.set(Delivered, "")
				e.since = v.at
				if v.consumed {
					e.consumedHash = l.hash
				}
			case v.known:
				m.parkEntry(e, "it was changed after it was delivered, and a message never changes: give it another name to send it")
			case v.arrived:
				m.parkEntry(e, "it came from another machine, and mail is not sent on")
			case wait > 0:
				e.reason = fmt.Sprintf("%s: %s; it is taken as it is when it has rested for %s", beingWritten, flaws[i], invalidRestTime)
				invalid.add(e.file, wait)
			case faults[i] != nil:
				m.parkEntry(e, faults[i].Error())
			default:
				e.set(Waiting, "")
				k := m.queueOf(s.Peer)
				k.stale = true
				k.wake()
			}
		}
		m.scanLater(p, invalid)
		m.unlockAndTell()
	}
}

// recordGone notes in the ledger that files are gone; with prune also those that went while
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
			m.recheckGone(p)
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
		m.recheckGone(p)
	}
}

// recheckGone has the next look find what the ledger knows of files that are gone.
func (m *Mailer) recheckGone(p mailbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.bound[p]; s != nil {
		s.goneRecorded = false
	}
}

// removeDelivered removes a delivered copy, durably, if it is still the same message. One that
// cannot be removed stays in the queue with the reason, and is tried at each look.
func (m *Mailer) removeDelivered(ctx context.Context, inbox *os.Root, e *entry) {
	l, err := readMailFile(inbox, e.file)
	if errors.Is(err, errChanging) || err == nil && l.hash != e.hash {
		return // the next look parks it
	}
	if err == nil {
		err = inbox.Remove(e.file)
	}
	if err == nil {
		err = durable.SyncRoot(inbox)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		m.mu.Lock()
		e.state = gone
		if s := m.bound[e.mailbox]; s != nil && s.entries[e.file] == e {
			delete(s.entries, e.file)
		}
		m.mu.Unlock()
		m.recordGone(ctx, e.mailbox, []string{e.file}, nil, false)
		return
	}
	why := withoutPath(err)
	reason := "the copy here cannot be removed: " + why
	m.mu.Lock()
	old := e.reason
	e.reason = reason
	m.mu.Unlock()
	if reason != old {
		m.cfg.Log.Warn("mail: a delivered copy cannot be removed", "project", e.mailbox.project, "agent", e.mailbox.agent, "file", e.file, "err", why)
	}
}
