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
	sending   = "flying"    // being delivered
	gone      = "gone"      // no more in the folder, or changed: another entry has its place
)

// beingWritten is the reason of one that settles.
const beingWritten = "it may still be being written"

// boundInbox is the inbox of a bound agent. Mailer.mu guards it and its entries.
type boundInbox struct {
	Binding
	entries      map[string]*entry
	goneRecorded bool // the ledger has no file for here that went while nobody looked

	peerStatus   string // of the agent, as its peer says
	fileStatus   string // what its status.yaml says
	fileStatusAt time.Time

	statusPlanned bool // it is written again soon
}

func newBoundInbox(b Binding) *boundInbox {
	return &boundInbox{Binding: b, entries: make(map[string]*entry)}
}

// abandonEntries forgets all entries: what is under way changes nothing when it lands. The
// caller holds Mailer.mu.
func (s *boundInbox) abandonEntries() {
	for _, e := range s.entries {
		e.state = gone
	}
	clear(s.entries)
}

// entry is one state of one file in a spool. A file that changes gets another.
type entry struct {
	mailbox        mailbox
	file           string
	version        fileVersion
	unchangedSince time.Time // since when it is like this

	whole    bool          // its writer has given up a temporary name for it
	restTime time.Duration // how long it has to rest, unless it is whole

	hash  [32]byte
	rank  int // of priority and type: the lowest goes first
	state string
	since time.Time // when the file came or was last changed or, of one that is delivered, when that was

	consumedHash [32]byte // what the agent there is done with: not this, if it was changed

	reason         string    // why it is parked, waits, or does not go
	reportedReason string    // the reason for which the peer refused it, when that was last news
	refused        bool      // parked by the peer's word: offered again now and then
	tries          int       // that failed
	nextTry        time.Time // of the next try, or of going when it is delivered
}

func (e *entry) set(state, reason string) {
	e.state, e.reason, e.refused = state, reason, false
}

// shownState is what the queue says of a state.
func shownState(state string) string {
	if state == settling || state == sending {
		return Waiting
	}
	return state
}

// restLeft is how long an entry has to rest further before it is taken as it is.
func (e *entry) restLeft(now time.Time) time.Duration {
	if e.whole {
		return 0
	}
	return e.restTime - max(now.Sub(e.unchangedSince), now.Sub(time.Unix(0, e.version.mtime)))
}

// requeue makes a refused entry one that waits; the reason stays until the peer has
// answered. The caller holds m.mu.
func (m *Mailer) requeue(e *entry) {
	e.set(Waiting, e.reason)
	e.nextTry = time.Time{}
	k := m.queueOf(m.bound[e.mailbox].Peer)
	k.stale = true
	k.wake()
}

// requeueRefused offers what a spool's peer has refused, or would not take yet, and reports
// whether there was any. The caller holds m.mu.
func (m *Mailer) requeueRefused(s *boundInbox) (any bool) {
	for _, e := range s.entries {
		if e.refused || e.state == Waiting {
			any = any || e.refused || e.tries > 0
			m.requeue(e)
		}
	}
	return any
}

// retryRefused offers a peer what it has refused, or would not take yet, because it has
// given a reason to: at once, but not twice in a minute. The caller holds m.mu.
func (m *Mailer) retryRefused(peer identity.ID) {
	k, now := m.queueOf(peer), time.Now()
	if k.retryPending = now.Sub(k.retriedAt) < retryRefusedEvery; k.retryPending {
		return
	}
	for _, s := range m.bound {
		if s.Peer == peer && m.requeueRefused(s) {
			k.retriedAt = now
		}
	}
}

// updateEntries brings a spool's entries up to date. It returns those that are to be read,
// the files that are gone, and whether the ledger may know of further ones. The
// caller holds m.mu.
func (m *Mailer) updateEntries(s *boundInbox, found map[string]foundFile, files names) (settled []*entry, missing []string, checkGone bool) {
	now, p := time.Now(), s.mailbox()
	var young unsettled
	for name, f := range found {
		e := s.entries[name]
		if e == nil || e.version != f.version {
			if e != nil {
				e.state = gone
			}
			e = &entry{mailbox: p, file: name, version: f.version, unchangedSince: now, since: f.since, state: settling, restTime: settleTime}
			s.entries[name] = e
		}
		if e.state != settling {
			continue
		}
		if _, whole := m.whole[p][name]; whole {
			e.whole = true
			delete(m.whole[p], name)
		}
		switch wait := e.restLeft(now); {
		case f.unfit != "" && f.version.size > 0:
			m.parkEntry(e, f.unfit)
		case !message.LegalFileName(name):
			m.parkEntry(e, "its name: use letters, digits, dots, hyphens and underscores, a letter or digit first, at most 200 bytes, .yaml at the end")
		case wait <= 0:
			e.reason = ""
			settled = append(settled, e)
		default:
			e.reason = cmp.Or(e.reason, beingWritten)
			young.add(name, wait)
		}
	}
	for name, e := range selected(s.entries, files) {
		if _, there := found[name]; !there {
			e.state = gone
			missing = append(missing, name)
		}
	}
	for _, name := range missing {
		delete(s.entries, name)
	}
	m.scanLater(p, young)
	if files == nil && !s.goneRecorded {
		s.goneRecorded, checkGone = true, true
	}
	return settled, missing, checkGone
}

// unsettled are files that are looked at again when the first of them has rested.
type unsettled struct {
	files names
	wait  time.Duration
}

func (r *unsettled) add(file string, wait time.Duration) {
	if r.files == nil {
		r.files, r.wait = make(names), wait
	}
	r.files[file] = struct{}{}
	r.wait = min(r.wait, wait)
}

func (m *Mailer) scanLater(p mailbox, r unsettled) {
	if r.files == nil {
		return
	}
	time.AfterFunc(max(r.wait, settleTick), func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.markDirty(p, r.files)
	})
}

func (e *entry) event(peer identity.ID) Event {
	return Event{Peer: peer, Project: e.mailbox.project, Agent: e.mailbox.agent, File: e.file, Hash: e.hash, State: e.state, Reason: e.reason, refused: e.refused}
}

// parkEntry keeps an entry from being carried. The caller holds m.mu, and gives it back
// with m.unlockAndTell.
func (m *Mailer) parkEntry(e *entry, reason string) {
	if e.state == Parked && e.reason == reason {
		return
	}
	e.set(Parked, reason)
	m.events = append(m.events, e.event(m.bound[e.mailbox].Peer))
}

// refuseEntry parks an entry by its peer's word, which is news once. The caller holds m.mu, and
// gives it back with m.unlockAndTell.
func (m *Mailer) refuseEntry(e *entry, reason string) {
	e.set(Parked, reason)
	e.refused = true
	if e.reportedReason != reason { // else it was only offered again
		e.reportedReason = reason
		m.events = append(m.events, e.event(m.bound[e.mailbox].Peer))
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
	return cmp.Or(cmp.Compare(e.rank, f.rank), cmp.Compare(e.file, f.file), e.mailbox.compare(f.mailbox))
}

// removable returns the copies, of some files or of all, that are to go: their agent is done
// with its own, or they were delivered long enough ago. The caller holds m.mu.
func (s *boundInbox) removable(which names) (all []*entry) {
	for _, e := range selected(s.entries, which) {
		if e.state != Delivered {
			continue
		}
		if s.Mode == Mirror && e.consumedHash == e.hash || s.Mode == OnStored && time.Since(e.since) >= s.Linger {
			all = append(all, e)
		}
	}
	return all
}
