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

// sighting is a file as a look into a folder finds it.
type sighting struct {
	mark  mark
	unfit string
	came  time.Time
}

// look looks at files of a folder, all of them for nil: for mail that is to be
// carried, and for mail that came and is consumed. It returns how many names it has gone
// through. Only Run calls it.
func (c *Carrier) look(ctx context.Context, p place, which names) (n int) {
	defer c.feed(p)
	if which != nil && len(which) == 0 {
		return 0
	}
	inbox, err := c.openInbox(p)
	if err != nil {
		// A folder that is gone says nothing of its messages.
		if !errors.Is(err, fs.ErrNotExist) && c.failing(p.dir(), err.Error()) {
			c.cfg.Log.Warn("mail: an inbox cannot be opened", "project", p.project, "agent", p.agent, "err", err)
		}
		if errors.Is(err, fs.ErrNotExist) {
			c.releaseAll(p)
		}
		return 0
	}
	defer inbox.Close()
	peer, bound := c.bound(p)
	found, n, err := sight(inbox, which, bound)
	if err != nil {
		if c.failing(p.dir(), err.Error()) {
			c.cfg.Log.Warn("mail: an inbox cannot be read", "project", p.project, "agent", p.agent, "err", err)
		}
		return n
	}
	c.works(p.dir())
	c.notice(ctx, p, inbox, found, which)

	if !bound {
		return n
	}
	c.mu.Lock()
	s := c.spools[p]
	if s == nil {
		c.mu.Unlock()
		return n
	}
	ripe, left, prune := c.merge(s, found, which)
	c.unlock()
	c.examine(ctx, peer, p, inbox, ripe)
	if len(left) > 0 || prune {
		c.forget(ctx, p, left, found, prune)
	}
	c.mu.Lock()
	var over []*entry
	if s := c.spools[p]; s != nil {
		over = s.over(which)
	}
	c.mu.Unlock()
	for _, e := range over {
		c.discard(ctx, inbox, e)
	}
	return n
}

// sight finds the files of a folder that are, or might be taken for, messages, and
// looks closer at them if it is asked to. n is how many names it has gone through.
func sight(inbox *os.Root, which names, closer bool) (found map[string]sighting, n int, err error) {
	found = make(map[string]sighting)
	see := func(name string) error {
		info, err := inbox.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
			return nil
		}
		if err != nil {
			return err
		}
		found[name] = sighting{markOf(info), unfit(info), came(info, time.Now())}
		return nil
	}
	if which != nil {
		for name := range which {
			if err := see(name); err != nil {
				return nil, len(which), err
			}
		}
		return found, len(which), nil
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
		if !closer {
			found[f.Name()] = sighting{}
		} else if err := see(f.Name()); err != nil {
			return nil, len(all), err
		}
	}
	return found, len(all), nil
}

// examine reads files that rest and decides what is to become of them.
func (c *Carrier) examine(ctx context.Context, peer identity.ID, p place, inbox *os.Root, ripe []*entry) {
	const atOnce = 100 // so that a read of the database is quick
	for batch := range slices.Chunk(ripe, atOnce) {
		type verdict struct {
			known     bool
			delivered [32]byte
			at        time.Time
			consumed  bool
			arrived   bool
		}
		letters := make([]*letter, len(batch))
		faults := make([]error, len(batch))
		flaws := make([]string, len(batch)) // why it is no valid message
		ranks := make([]int, len(batch))
		verdicts := make([]verdict, len(batch))
		for i, e := range batch {
			if letters[i], faults[i] = read(inbox, e.file); faults[i] == nil {
				var m message.Message
				m, faults[i] = message.Carriable(letters[i].data)
				ranks[i] = rankOf(m)
				letters[i].data = nil
				if invalid := m.Validate(); invalid != nil {
					flaws[i] = invalid[0]
				}
			}
			if faults[i] != nil {
				flaws[i] = faults[i].Error()
			}
		}
		err := c.consult(ctx, func(tx *store.Tx) (err error) {
			for i, e := range batch {
				if letters[i] == nil {
					continue
				}
				v := &verdicts[i]
				if v.delivered, v.at, v.consumed, v.known, err = sqlDelivery(tx, peer, p, e.file); err != nil {
					return err
				}
				if v.arrived, err = sqlArrived(tx, p, letters[i].hash); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return // the entries are looked at again
		}
		c.mu.Lock()
		s, now := c.spools[p], time.Now()
		var strange resting
		for i, e := range batch {
			if s == nil || s.Peer != peer || e.state != settling {
				continue // the next look is at it as it is bound now
			}
			l, v := letters[i], verdicts[i]
			switch _, unfit := errors.AsType[unfitError](faults[i]); {
			case l != nil && l.mark != e.mark:
				continue // the next look finds another file
			case l != nil:
				e.hash, e.rank = l.hash, ranks[i]
			case !unfit: // it may be readable at the next look
				e.reason = faults[i].Error()
				continue
			}
			if flaws[i] != "" {
				e.need = strangeTime
			}
			switch wait := e.unrested(now); {
			case v.known && v.delivered == l.hash:
				e.set(Delivered, "")
				e.since = v.at
				if v.consumed {
					e.consumed = l.hash
				}
			case v.known:
				c.park(e, "it was changed after it was delivered, and a message never changes: give it another name to send it")
			case v.arrived:
				c.park(e, "it came from another machine, and mail is not sent on")
			case wait > 0:
				e.reason = fmt.Sprintf("%s: %s; it is taken as it is when it has rested for %s", beingWritten, flaws[i], strangeTime)
				strange.add(e.file, wait)
			case faults[i] != nil:
				c.park(e, faults[i].Error())
			default:
				e.set(Waiting, "")
				k := c.courier(s.Peer)
				k.stale = true
				k.signal()
			}
		}
		c.lookAgain(p, strange)
		c.unlock()
	}
}

// forget notes in the ledger that files are gone; with prune also those that went while
// nobody looked.
func (c *Carrier) forget(ctx context.Context, p place, left []string, found map[string]sighting, prune bool) {
	if prune {
		err := c.consult(ctx, func(tx *store.Tx) error {
			all, err := sqlDeliveredFiles(tx, p)
			for _, file := range all {
				if _, there := found[file]; !there {
					left = append(left, file)
				}
			}
			return err
		})
		if err != nil {
			c.pruneAgain(p)
		}
	}
	if len(left) == 0 {
		return
	}
	err := c.record(ctx, func(tx *store.Tx) error {
		for _, file := range left {
			if err := sqlGone(tx, p, file); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		c.pruneAgain(p)
	}
}

// pruneAgain has the next look find what the ledger knows of files that are gone.
func (c *Carrier) pruneAgain(p place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.spools[p]; s != nil {
		s.pruned = false
	}
}

// discard removes a delivered copy, durably, if it is still the same message. One that
// cannot be removed stays in the queue with the reason, and is tried at each look.
func (c *Carrier) discard(ctx context.Context, inbox *os.Root, e *entry) {
	l, err := read(inbox, e.file)
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
		c.mu.Lock()
		e.state = gone
		if s := c.spools[e.at]; s != nil && s.entries[e.file] == e {
			delete(s.entries, e.file)
		}
		c.mu.Unlock()
		c.forget(ctx, e.at, []string{e.file}, nil, false)
		return
	}
	why := bare(err)
	reason := "the copy here cannot be removed: " + why
	c.mu.Lock()
	old := e.reason
	e.reason = reason
	c.mu.Unlock()
	if reason != old {
		c.cfg.Log.Warn("mail: a delivered copy cannot be removed", "project", e.at.project, "agent", e.at.agent, "file", e.file, "err", why)
	}
}
