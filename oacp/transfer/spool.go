package transfer

import (
	"cmp"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/oacp/message"
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

// beingWritten is the reason of one that settles.
const beingWritten = "it may still be being written"

// spool is the inbox of a bound agent. Carrier.mu guards it and its entries.
type spool struct {
	Binding
	entries map[string]*entry
	pruned  bool // the ledger has no file for here that went while nobody looked

	status string // of the agent, as its peer says
	fed    string // what its status.yaml says
	fedAt  time.Time

	feeding bool // it is written again soon
}

func newSpool(b Binding) *spool { return &spool{Binding: b, entries: make(map[string]*entry)} }

// forsake forgets all entries: what is under way changes nothing when it lands. The
// caller holds Carrier.mu.
func (s *spool) forsake() {
	for _, e := range s.entries {
		e.state = gone
	}
	clear(s.entries)
}

// entry is one state of one file in a spool. A file that changes gets another.
type entry struct {
	at   place
	file string
	mark mark
	seen time.Time // since when it is like this

	whole bool          // its writer has given up a temporary name for it
	need  time.Duration // how long it has to rest, unless it is whole

	hash  [32]byte
	rank  int // of priority and type: the lowest goes first
	state string
	since time.Time // when the file came or was last changed or, of one that is delivered, when that was

	consumed [32]byte // what the agent there is done with: not this, if it was changed

	reason  string    // why it is parked, waits, or does not go
	told    string    // the reason for which the peer refused it, when that was last news
	refused bool      // parked by the peer's word: offered again now and then
	tries   int       // that failed
	due     time.Time // of the next try, or of going when it is delivered
}

func (e *entry) set(state, reason string) {
	e.state, e.reason, e.refused = state, reason, false
}

// shown is what the queue says of a state.
func shown(state string) string {
	if state == settling || state == flying {
		return Waiting
	}
	return state
}

// unrested is how long an entry has to rest further before it is taken as it is.
func (e *entry) unrested(now time.Time) time.Duration {
	if e.whole {
		return 0
	}
	return e.need - max(now.Sub(e.seen), now.Sub(time.Unix(0, e.mark.mtime)))
}

// offer makes a refused entry one that waits; the reason stays until the peer has
// answered. The caller holds c.mu.
func (c *Carrier) offer(e *entry) {
	e.set(Waiting, e.reason)
	e.due = time.Time{}
	k := c.courier(c.spools[e.at].Peer)
	k.stale = true
	k.signal()
}

// offerAgain offers what a spool's peer has refused, or would not take yet, and reports
// whether there was any. The caller holds c.mu.
func (c *Carrier) offerAgain(s *spool) (any bool) {
	for _, e := range s.entries {
		if e.refused || e.state == Waiting {
			any = any || e.refused || e.tries > 0
			c.offer(e)
		}
	}
	return any
}

// offerRefused offers a peer what it has refused, or would not take yet, because it has
// given a reason to: at once, but not twice in a minute. The caller holds c.mu.
func (c *Carrier) offerRefused(peer identity.ID) {
	k, now := c.courier(peer), time.Now()
	if k.offerLater = now.Sub(k.offeredAt) < offerEvery; k.offerLater {
		return
	}
	for _, s := range c.spools {
		if s.Peer == peer && c.offerAgain(s) {
			k.offeredAt = now
		}
	}
}

// merge brings a spool's entries up to date. It returns those that are to be read,
// the files that are gone, and whether the ledger may know of further ones. The
// caller holds c.mu.
func (c *Carrier) merge(s *spool, found map[string]sighting, which names) (ripe []*entry, left []string, prune bool) {
	now, p := time.Now(), s.place()
	var young resting
	for name, f := range found {
		e := s.entries[name]
		if e == nil || e.mark != f.mark {
			if e != nil {
				e.state = gone
			}
			e = &entry{at: p, file: name, mark: f.mark, seen: now, since: f.came, state: settling, need: settleTime}
			s.entries[name] = e
		}
		if e.state != settling {
			continue
		}
		if _, whole := c.hints[p][name]; whole {
			e.whole = true
			delete(c.hints[p], name)
		}
		switch wait := e.unrested(now); {
		case f.unfit != "" && f.mark.size > 0:
			c.park(e, f.unfit)
		case !message.LegalFileName(name):
			c.park(e, "its name: use letters, digits, dots, hyphens and underscores, a letter or digit first, at most 200 bytes, .yaml at the end")
		case wait <= 0:
			e.reason = ""
			ripe = append(ripe, e)
		default:
			e.reason = cmp.Or(e.reason, beingWritten)
			young.add(name, wait)
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
	c.lookAgain(p, young)
	if which == nil && !s.pruned {
		s.pruned, prune = true, true
	}
	return ripe, left, prune
}

// resting are files that are looked at again when the first of them has rested.
type resting struct {
	files names
	first time.Duration
}

func (r *resting) add(file string, wait time.Duration) {
	if r.files == nil {
		r.files, r.first = make(names), wait
	}
	r.files[file] = struct{}{}
	r.first = min(r.first, wait)
}

func (c *Carrier) lookAgain(p place, r resting) {
	if r.files == nil {
		return
	}
	time.AfterFunc(max(r.first, settleTick), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.touch(p, r.files)
	})
}

func (e *entry) event(peer identity.ID) Event {
	return Event{Peer: peer, Project: e.at.project, Agent: e.at.agent, File: e.file, Hash: e.hash, State: e.state, Reason: e.reason, refused: e.refused}
}

// park keeps an entry from being carried. The caller holds c.mu, and gives it back
// with c.unlock.
func (c *Carrier) park(e *entry, reason string) {
	if e.state == Parked && e.reason == reason {
		return
	}
	e.set(Parked, reason)
	c.news = append(c.news, e.event(c.spools[e.at].Peer))
}

// refuse parks an entry by its peer's word, which is news once. The caller holds c.mu, and
// gives it back with c.unlock.
func (c *Carrier) refuse(e *entry, reason string) {
	e.set(Parked, reason)
	e.refused = true
	if e.told != reason { // else it was only offered again
		e.told = reason
		c.news = append(c.news, e.event(c.spools[e.at].Peer))
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

// over returns the copies, of some files or of all, that are to go: their agent is done
// with its own, or they were delivered long enough ago. The caller holds c.mu.
func (s *spool) over(which names) (all []*entry) {
	for _, e := range asked(s.entries, which) {
		if e.state != Delivered {
			continue
		}
		if s.Mode == Mirror && e.consumed == e.hash || s.Mode == OnStored && time.Since(e.since) >= s.Linger {
			all = append(all, e)
		}
	}
	return all
}
