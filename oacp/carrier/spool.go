package carrier

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/message"
	"github.com/acpd/acpd/store"
)

// The states of a file in a bound inbox. The queue shows the first three.
const (
	Waiting   = "waiting"
	Delivered = "delivered" // it is stored at the peer; this copy goes later
	Parked    = "parked"    // it is not carried; the reason says why
	settling  = "settling"  // somebody may be writing it
	flying    = "flying"    // being delivered
	gone      = "gone"      // no more in the folder, or changed: another entry has its place
)

// spool is the inbox of a bound agent. Carrier.mu guards it and its entries.
type spool struct {
	Binding
	entries map[string]*entry
	pruned  bool // the ledger knows of no file that went while nobody looked

	status string // of the agent, as its peer says
	fed    string // what its status.yaml says
	fedAt  time.Time
}

func newSpool(b Binding) *spool { return &spool{Binding: b, entries: make(map[string]*entry)} }

// entry is one state of one file in a spool. A file that changes gets another.
type entry struct {
	at   place
	file string
	mark mark
	seen time.Time // since when it is like this

	hash  [32]byte
	rank  int // of priority and type: the lowest goes first
	state string
	since time.Time // in that state

	reason  string    // why it is parked, or waits
	refused bool      // parked by the peer's word: offered again now and then
	tries   int       // that failed
	due     time.Time // of the next try, or of going when it is delivered
}

func (e *entry) set(state, reason string) {
	if e.state != state {
		e.since = time.Now()
	}
	e.state, e.reason, e.refused = state, reason, false
}

// offer makes a refused entry one that waits. The caller holds c.mu.
func (c *Carrier) offer(e *entry) {
	e.set(Waiting, "")
	e.due = time.Time{}
	k := c.courier(c.spools[e.at].Peer)
	k.stale = true
	k.signal()
}

// offerAgain offers what a spool's peer has refused, or would not take yet. The
// caller holds c.mu.
func (c *Carrier) offerAgain(s *spool) {
	for _, e := range s.entries {
		if e.refused || e.state == Waiting {
			c.offer(e)
		}
	}
}

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
	_, bound := c.bound(p)
	found, err := sight(inbox, which, bound)
	if err != nil {
		c.cfg.Log.Warn("mail: an inbox cannot be read", "project", p.project, "agent", p.agent, "err", err)
		return
	}
	c.notice(ctx, p, found, which)

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
	c.mu.Unlock()
	c.examine(ctx, p, inbox, ripe)
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

// merge brings a spool's entries up to date. It returns those that are to be read,
// the files that are gone, and whether the ledger may know of further ones. The
// caller holds c.mu.
func (c *Carrier) merge(s *spool, found map[string]sighting, which names) (ripe []*entry, left []string, prune bool) {
	now, p := time.Now(), s.place()
	var young names
	for name, f := range found {
		e := s.entries[name]
		if e == nil || e.mark != f.mark {
			if e != nil {
				e.state = gone
			}
			e = &entry{at: p, file: name, mark: f.mark, seen: now, since: now, state: settling, reason: "it is being written"}
			s.entries[name] = e
		}
		if e.state != settling {
			continue
		}
		_, whole := c.hints[p][name]
		delete(c.hints[p], name)
		switch rest := now.Sub(time.Unix(0, f.mark.mtime)); {
		case f.unfit != "" && f.mark.size > 0:
			c.park(e, f.unfit)
		case !message.LegalFileName(name):
			c.park(e, "its name: use letters, digits, dots, hyphens and underscores, a letter or digit first, at most 200 bytes, .yaml at the end")
		case whole, rest >= settleTime, now.Sub(e.seen) >= settleTime:
			ripe = append(ripe, e)
		default:
			if young == nil {
				young = make(names)
			}
			young[name] = struct{}{}
		}
	}
	for name, e := range asked(s.entries, which) {
		if _, there := found[name]; !there {
			e.state = gone
			left = append(left, name)
		}
	}
	for _, name := range left {
		delete(s.entries, name)
	}
	if young != nil {
		time.AfterFunc(settleTick, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.touch(p, young)
		})
	}
	if which == nil && !s.pruned {
		s.pruned, prune = true, true
	}
	return ripe, left, prune
}

// park keeps an entry from being carried. The caller holds c.mu.
func (c *Carrier) park(e *entry, reason string) {
	if e.state == Parked && e.reason == reason {
		return
	}
	e.set(Parked, reason)
	s := c.spools[e.at]
	c.cfg.Log.Warn("mail is parked", "project", e.at.project, "agent", e.at.agent, "file", e.file, "reason", reason)
	c.cfg.Event(Event{Peer: s.Peer, Project: e.at.project, Agent: e.at.agent, File: e.file, Hash: e.hash, State: Parked, Reason: reason})
}

// examine reads files that rest and decides what is to become of them.
func (c *Carrier) examine(ctx context.Context, p place, inbox *os.Root, ripe []*entry) {
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
				if v.delivered, v.at, v.known, err = sqlDelivery(tx, p, e.file); err != nil {
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
			if s == nil || e.state != settling {
				continue
			}
			l, v := letters[i], verdicts[i]
			switch {
			case l == nil && (errors.Is(faults[i], errChanging) || errors.Is(faults[i], fs.ErrNotExist)), l != nil && l.mark != e.mark:
				continue // the next look finds another file
			case l == nil:
				c.park(e, faults[i].Error())
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
		c.mu.Unlock()
	}
}

// rankOf puts messages in the order in which they are sent, before their names.
func rankOf(m message.Message) int {
	rank := 2 * m.PriorityRank()
	if !m.IsRequest() {
		rank++
	}
	return rank
}

// before is the order of sending.
func (e *entry) before(f *entry) int {
	return cmp.Or(cmp.Compare(e.rank, f.rank), cmp.Compare(e.file, f.file), e.at.compare(f.at))
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

// lingered returns what was delivered long enough ago. The caller holds c.mu.
func (s *spool) lingered() (over []*entry) {
	if s.Mode != OnStored {
		return nil
	}
	for _, e := range s.entries {
		if e.state == Delivered && time.Since(e.since) >= s.Linger {
			over = append(over, e)
		}
	}
	return over
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

// notHere is what a caller hears who names a file that is not there.
func notHere(op string, p place, file string) error {
	return kinds.Errorf(kinds.NotFound, "%s: there is no %.200q in the inbox of %s: see acpctl oacp queue", op, file, p.agent)
}
