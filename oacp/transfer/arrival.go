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
	kept    bool  // among Carrier.arrivals, which has a say in counted

	tries int       // of telling the sender, which did not take this one
	due   time.Time // of the next
}

// arrivalKey names a message. Its id does not: a broadcast to two agents behind one
// peer is one id, one name and the same bytes, twice.
type arrivalKey struct {
	peer identity.ID
	place
	file string // its name at the sender
	hash [32]byte
}

// name is the message's name here, if no other message has it.
func (k arrivalKey) name() string { return localName(k.file, k.hash) }

// temp is the name under which the message is written. It is the same at each attempt,
// and no other message's, so that what a crash leaves behind is found without a look at
// files of others.
func (k arrivalKey) temp() string {
	id := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s/%x/%s", k.peer, k.project, k.agent, k.hash, k.file))
	return "." + k.name() + tempMark + hex.EncodeToString(id[:8])
}

// mend settles what a crash left half stored: it is there, or it never came and
// will come again. Its temporary file goes, and nobody else's.
func (c *Carrier) mend(ctx context.Context, a *arrival) (err error) {
	name, err := c.salvage(a)
	if err != nil {
		return err
	}
	if name == "" {
		defer func() {
			if err == nil {
				c.shares.ledger.Give(a.key.peer, 1)
			}
		}()
	}
	// It is found out again if that is lost.
	return c.cfg.DB.Write(ctx, false, func(tx *store.Tx) error {
		if name == "" {
			a.state = ""
			return sqlUnarrive(tx, a.key)
		}
		a.state, a.name = stored, name
		return sqlProceed(tx, a)
	})
}

// salvage returns the name that a half-stored message has in the inbox, or had
// before it went into the archive; "" if it is in neither.
func (c *Carrier) salvage(a *arrival) (string, error) {
	inbox, err := c.openInbox(a.key.place)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer inbox.Close()
	if err := inbox.Remove(a.key.temp()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if a.folder, err = folderOf(inbox); err != nil {
		return "", err
	}
	return a.lies(inbox)
}

// lies returns a message's name in an inbox or its archive, "" if it is in neither.
func (a *arrival) lies(inbox *os.Root) (string, error) {
	name := a.key.name()
	if n := find(inbox, name, a.size, a.key.hash); n != "" {
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
	return find(archive, name, a.size, a.key.hash), nil
}

// notice finds what is consumed of the mail that came to a place: it is no more in
// the inbox, while the inbox is there, and not another in its place.
func (c *Carrier) notice(ctx context.Context, p place, inbox *os.Root, found map[string]sighting, which names) {
	folder, err := folderOf(inbox)
	if err != nil {
		return // the next look finds it too
	}
	c.mu.Lock()
	var missing, moved []*arrival
	for name, all := range asked(c.arrivals[p], which) {
		_, there := found[name]
		for _, a := range all {
			if there {
				c.count(a)
			}
			switch {
			case there && a.folder != folder: // as after a restored backup
				a.folder = folder
				moved = append(moved, a)
			case there:
			case a.folder == folder || a.folder == 0:
				missing = append(missing, a)
			default: // it went with another folder
				c.release(a)
			}
		}
	}
	c.mu.Unlock()
	// One that came after the look is not missing.
	over := slices.DeleteFunc(missing, func(a *arrival) bool {
		_, err := inbox.Lstat(a.name)
		return !errors.Is(err, fs.ErrNotExist)
	})
	if len(over) == 0 && len(moved) == 0 {
		return
	}
	for _, a := range over {
		a.state = consumed
	}
	c.record(ctx, func(tx *store.Tx) error {
		for _, a := range slices.Concat(over, moved) {
			if err := sqlProceed(tx, a); err != nil {
				return err
			}
		}
		return nil
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range over {
		c.drop(a)
		c.keep(a)
	}
}

// drop takes an arrival out of those that lie in an inbox. The caller holds c.mu.
func (c *Carrier) drop(a *arrival) {
	c.release(a)
	p := a.key.place
	left := slices.DeleteFunc(c.arrivals[p][a.name], func(b *arrival) bool { return a == b })
	if len(left) > 0 {
		c.arrivals[p][a.name] = left
		return
	}
	delete(c.arrivals[p], a.name)
	if len(c.arrivals[p]) == 0 {
		delete(c.arrivals, p)
	}
}
