package carrier

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

// sighting is a file as a look into a folder finds it.
type sighting struct {
	mark  mark
	unfit string
}

// look looks at files of a folder, all of them for nil: for mail that is to be
// carried, and for mail that came and is consumed. Only Run calls it.
func (c *Carrier) look(ctx context.Context, p place, which names) {
	defer c.feed(p)
	if which != nil && len(which) == 0 {
		return
	}
	inbox, err := c.openInbox(p)
	if err != nil {
		// A folder that is gone says nothing of its messages.
		if !errors.Is(err, fs.ErrNotExist) {
			c.cfg.Log.Warn("mail: an inbox cannot be opened", "project", p.project, "agent", p.agent, "err", err)
		}
		return
	}
	defer inbox.Close()
	peer, bound := c.bound(p)
	found, err := sight(inbox, which, bound)
	if err != nil {
		c.cfg.Log.Warn("mail: an inbox cannot be read", "project", p.project, "agent", p.agent, "err", err)
		return
	}
	c.notice(ctx, p, inbox, found, which)

	if !bound {
		return
	}
	c.mu.Lock()
	s := c.spools[p]
	if s == nil {
		c.mu.Unlock()
		return
	}
	ripe, left, prune := c.merge(s, found, which)
	lingered := s.lingered()
	c.unlock()
	c.examine(ctx, peer, p, inbox, ripe)
	if len(left) > 0 || prune {
		c.forget(ctx, p, left, found, prune)
	}
	for _, e := range lingered {
		if err := c.unlink(ctx, p, e.file, e.hash); err != nil {
			c.cfg.Log.Warn("mail: a delivered copy cannot be removed", "project", p.project, "agent", p.agent, "file", e.file, "err", err)
		}
	}
}

// sight finds the files of a folder that are, or might be taken for, messages, and
// looks closer at them if it is asked to.
func sight(inbox *os.Root, which names, closer bool) (map[string]sighting, error) {
	found := make(map[string]sighting)
	see := func(name string) error {
		info, err := inbox.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
			return nil
		}
		if err != nil {
			return err
		}
		found[name] = sighting{markOf(info), unfit(info)}
		return nil
	}
	if which != nil {
		for name := range which {
			if err := see(name); err != nil {
				return nil, err
			}
		}
		return found, nil
	}
	d, err := inbox.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	all, err := d.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		if !strings.HasSuffix(f.Name(), extension) || f.IsDir() {
			continue
		}
		if !closer {
			found[f.Name()] = sighting{}
		} else if err := see(f.Name()); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// examine reads files that rest and decides what is to become of them.
func (c *Carrier) examine(ctx context.Context, peer identity.ID, p place, inbox *os.Root, ripe []*entry) {
	const atOnce = 100 // so that a read of the database is quick
	for batch := range slices.Chunk(ripe, atOnce) {
		type verdict struct {
			known     bool
			delivered [32]byte
			at        time.Time
			arrived   bool
		}
		letters := make([]*letter, len(batch))
		faults := make([]error, len(batch))
		ranks := make([]int, len(batch))
		verdicts := make([]verdict, len(batch))
		for i, e := range batch {
			if letters[i], faults[i] = read(inbox, e.file); faults[i] == nil {
				var m message.Message
				m, faults[i] = message.Carriable(letters[i].data)
				ranks[i] = rankOf(m)
				letters[i].data = nil
			}
		}
		err := c.cfg.DB.Read(ctx, func(tx *store.Tx) (err error) {
			for i, e := range batch {
				if letters[i] == nil {
					continue
				}
				v := &verdicts[i]
				if v.delivered, v.at, v.known, err = sqlDelivery(tx, peer, p, e.file); err != nil {
					return err
				}
				if v.arrived, err = sqlArrived(tx, p, letters[i].hash); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			c.cfg.Log.Error("mail: the ledger cannot be read", "err", err)
			return // the entries are looked at again
		}
		c.mu.Lock()
		s := c.spools[p]
		for i, e := range batch {
			if s == nil || s.Peer != peer || e.state != settling {
				continue // the next look is at it as it is bound now
			}
			l, v := letters[i], verdicts[i]
			switch {
			case l != nil && l.mark != e.mark:
				continue // the next look finds another file
			case errors.As(faults[i], new(unfitError)):
				c.park(e, faults[i].Error())
				continue
			case l == nil: // it may be readable at the next look
				e.reason = faults[i].Error()
				continue
			}
			e.hash, e.rank = l.hash, ranks[i]
			switch {
			case v.known && v.delivered == l.hash:
				e.set(Delivered, "")
				e.since = v.at
			case v.known:
				c.park(e, "it was changed after it was delivered, and a message never changes: give it another name to send it")
			case v.arrived:
				c.park(e, "it came from another machine, and mail is not sent on")
			case faults[i] != nil:
				c.park(e, faults[i].Error())
			default:
				e.set(Waiting, "")
				k := c.courier(s.Peer)
				k.stale = true
				k.signal()
			}
		}
		c.unlock()
	}
}

// forget takes files that are gone out of the ledger; with prune also those that
// went while nobody looked.
func (c *Carrier) forget(ctx context.Context, p place, left []string, found map[string]sighting, prune bool) {
	if prune {
		err := c.cfg.DB.Read(ctx, func(tx *store.Tx) error {
			all, err := sqlDeliveredFiles(tx, p)
			for _, file := range all {
				if _, there := found[file]; !there {
					left = append(left, file)
				}
			}
			return err
		})
		if err != nil {
			c.cfg.Log.Warn("mail: the ledger cannot be read", "err", err)
		}
	}
	if len(left) == 0 {
		return
	}
	err := c.cfg.DB.Write(ctx, false, func(tx *store.Tx) error {
		for _, file := range left {
			if err := sqlForget(tx, p, file); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil { // then the file's next life under this name has to be another
		c.cfg.Log.Warn("mail: the ledger cannot be written", "err", err)
	}
}

// unlink removes a delivered copy, durably, if it is still the same message.
func (c *Carrier) unlink(ctx context.Context, p place, file string, hash [32]byte) error {
	inbox, err := c.openInbox(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer inbox.Close()
	l, err := read(inbox, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil && !errors.Is(err, errChanging):
		return err
	case err != nil || l.hash != hash:
		return nil // the next look parks it
	}
	// The ledger first: the same file, put there again, is then sent again.
	if err := c.cfg.DB.Write(ctx, false, func(tx *store.Tx) error { return sqlForget(tx, p, file) }); err != nil {
		return err
	}
	c.mu.Lock()
	if s := c.spools[p]; s != nil {
		if e := s.entries[file]; e != nil && e.mark == l.mark {
			e.state = gone
		}
	}
	c.mu.Unlock()
	if err := inbox.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncDir(inbox)
}
