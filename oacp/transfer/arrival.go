package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/store"
)

// The states of an arrival in the ledger.
const (
	writing  = "writing"  // a file may be there
	stored   = "stored"   // it is there, and the sender may know
	consumed = "consumed" // the agent is done with it, and the sender does not know
	reported = "reported" // the sender knows
)

// arrival is a message that came from a peer.
type arrival struct {
	key   arrivalKey
	name  string // of the file here
	state string

	folder uint64 // in which it was seen last; 0 if that is not known

	size    int64 // 0 of what came before sizes were kept
	counted bool  // it and its size, in the peer's shares
	kept    bool  // among Mailer.arrivals, which has a say in counted

	tries int       // of telling the sender, which did not take this one
	due   time.Time // of the next
}

// arrivalKey names a message. Its id does not: a broadcast to two agents behind one
// peer is one id, one name and the same bytes, twice.
type arrivalKey struct {
	peer identity.ID
	mailbox
	file string // its name at the sender
	hash [32]byte
}

// name is the message's name here, if no other message has it.
func (k arrivalKey) name() string { return localName(k.file, k.hash) }

// tempName is the name under which the message is written. It is the same at each attempt,
// and no other message's, so that what a crash leaves behind is found without a look at
// files of others.
func (k arrivalKey) tempName() string {
	id := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s/%x/%s", k.peer, k.project, k.agent, k.hash, k.file))
	return "." + k.name() + tempMark + hex.EncodeToString(id[:8])
}

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
				m.shares.ledger.Give(a.key.peer, 1)
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

// findConsumed finds what is consumed of the mail that came to a place: it is no more in
// the inbox, while the inbox is there, and not another in its place.
func (m *Mailer) findConsumed(ctx context.Context, p mailbox, inbox *os.Root, found map[string]foundFile, files names) {
	folder, err := inodeOf(inbox)
	if err != nil {
		return // the next look finds it too
	}
	m.mu.Lock()
	var missing, moved []*arrival
	for name, all := range selected(m.arrivals[p], files) {
		_, there := found[name]
		for _, a := range all {
			if there {
				m.countRoom(a)
			}
			switch {
			case there && a.folder != folder: // as after a restored backup
				a.folder = folder
				moved = append(moved, a)
			case there:
			case a.folder == folder || a.folder == 0:
				missing = append(missing, a)
			default: // it went with another folder
				m.releaseRoom(a)
			}
		}
	}
	m.mu.Unlock()
	// One that came after the look is not missing.
	done := slices.DeleteFunc(missing, func(a *arrival) bool {
		_, err := inbox.Lstat(a.name)
		return !errors.Is(err, fs.ErrNotExist)
	})
	if len(done) == 0 && len(moved) == 0 {
		return
	}
	for _, a := range done {
		a.state = consumed
	}
	m.writeStore(ctx, func(tx *store.Tx) error {
		for _, a := range slices.Concat(done, moved) {
			if err := sqlUpdateArrival(tx, a); err != nil {
				return err
			}
		}
		return nil
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range done {
		m.removeArrival(a)
		m.addArrival(a)
	}
}

// removeArrival takes an arrival out of those that lie in an inbox. The caller holds m.mu.
func (m *Mailer) removeArrival(a *arrival) {
	m.releaseRoom(a)
	p := a.key.mailbox
	left := slices.DeleteFunc(m.arrivals[p][a.name], func(b *arrival) bool { return a == b })
	if len(left) > 0 {
		m.arrivals[p][a.name] = left
		return
	}
	delete(m.arrivals[p], a.name)
	if len(m.arrivals[p]) == 0 {
		delete(m.arrivals, p)
	}
}
