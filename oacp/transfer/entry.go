package transfer

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/oacp/message"
)

// State is the state of an entry, and of mail that an event tells of.
type State string

// The states of an entry. The queue shows the first three.
const (
	Waiting   State = "waiting"
	Delivered State = "delivered" // it is stored at the peer; this copy goes later
	Parked    State = "parked"    // it is not carried; the reason says why
	settling  State = "settling"  // somebody may be writing it
	sending   State = "sending"
	gone      State = "gone" // no more in the folder, or changed: another entry has its place
)

// Arrived is the state of mail that came from a peer.
const Arrived State = "arrived"

// shown returns what the queue says of a state.
func (s State) shown() State {
	if s == settling || s == sending {
		return Waiting
	}
	return s
}

// beingWritten is the reason of an entry that settles.
const beingWritten = "it may still be being written"

// entry is one state of one file in the inbox of a bound agent. A file that changes gets
// another.
type entry struct {
	mailbox        mailbox
	file           string
	version        fileVersion
	unchangedSince time.Time

	whole    bool          // its writer has given up a temporary name for it
	restTime time.Duration // how long it has to rest, unless it is whole

	hash  [32]byte
	rank  int // of priority and type: the lowest goes first
	state State
	since time.Time // when the file came or was last changed or, if it is delivered, when that was

	consumedHash [32]byte // what the agent there is done with: not this, if it was changed

	reason         string    // why it is parked, waits, or does not go
	reportedReason string    // the reason for which the peer refused it, when that was last news
	refused        bool      // parked by the peer's word: offered again now and then
	tries          int       // that failed
	nextTry        time.Time // zero: now
}

func (e *entry) set(state State, reason string) {
	e.state, e.reason, e.refused = state, reason, false
}

func (e *entry) event(peer identity.ID) Event {
	return Event{Peer: peer, Project: e.mailbox.project, Agent: e.mailbox.agent, File: e.file, Hash: e.hash, State: e.state, Reason: e.reason, refused: e.refused}
}

// restLeft returns how long an entry has to rest further before it is taken as it is.
func (e *entry) restLeft(now time.Time) time.Duration {
	if e.whole {
		return 0
	}
	return e.restTime - max(now.Sub(e.unchangedSince), now.Sub(time.Unix(0, e.version.mtime)))
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

// unsettled are files that are scanned again when the first of them has rested.
type unsettled struct {
	files names
	wait  time.Duration
}

func (u *unsettled) add(file string, wait time.Duration) {
	if u.files == nil {
		u.files, u.wait = make(names), wait
	}
	u.files[file] = struct{}{}
	u.wait = min(u.wait, wait)
}

// park keeps an entry from being carried, and returns the event of that if it is news.
func (e *entry) park(peer identity.ID, reason string) []Event {
	if e.state == Parked && e.reason == reason {
		return nil
	}
	e.set(Parked, reason)
	return []Event{e.event(peer)}
}

// refuse parks an entry by its peer's word, and returns the event of that if it is news.
func (e *entry) refuse(peer identity.ID, reason string) []Event {
	e.set(Parked, reason)
	e.refused = true
	if e.reportedReason == reason { // it was only offered again
		return nil
	}
	e.reportedReason = reason
	return []Event{e.event(peer)}
}

// entryChanges are what a scan changed of the entries of an inbox.
type entryChanges struct {
	settled   []*entry  // to be read and classified
	missing   []string  // files that are gone
	checkGone bool      // the store may know of further ones that are gone
	unsettled unsettled // to be scanned again
	events    []Event
}

// updateEntries brings the entries of an inbox up to date with the files that a scan of
// some names, or of all for nil, has found. bound is false if the agent is bound no more.
func (l *ledger) updateEntries(p mailbox, found map[string]foundFile, scanned names) (c entryChanges, bound bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.bound[p]
	if s == nil {
		return c, false
	}
	now := time.Now()
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
		if _, whole := l.whole[p][name]; whole {
			e.whole = true
			delete(l.whole[p], name)
		}
		switch wait := e.restLeft(now); {
		case f.unfit != "" && f.version.size > 0:
			c.events = append(c.events, e.park(s.Peer, f.unfit)...)
		case !message.LegalFileName(name):
			c.events = append(c.events, e.park(s.Peer, "its name: use letters, digits, dots, hyphens and underscores, a letter or digit first, at most 200 bytes, .yaml at the end")...)
		case wait <= 0:
			e.reason = ""
			c.settled = append(c.settled, e)
		default:
			e.reason = cmp.Or(e.reason, beingWritten)
			c.unsettled.add(name, wait)
		}
	}
	for name, e := range selected(s.entries, scanned) {
		if _, there := found[name]; !there {
			e.state = gone
			c.missing = append(c.missing, name)
		}
	}
	for _, name := range c.missing {
		delete(s.entries, name)
	}
	if scanned == nil && !s.goneRecorded {
		s.goneRecorded, c.checkGone = true, true
	}
	return c, true
}

// finding is what was found out of a settled entry: by its file, and by the store.
type finding struct {
	entry *entry
	file  *mailFile // nil: it could not be read
	fault error     // why it cannot be carried
	flaw  string    // why it is no valid message
	rank  int

	delivered struct { // what was delivered from the file
		known    bool
		hash     [32]byte
		at       time.Time
		consumed bool
	}
	arrived bool // the message came from a peer
}

// classify decides what becomes of entries that have settled, unless their inbox is bound
// to another peer by now. Those of again are scanned once more.
func (l *ledger) classify(p mailbox, peer identity.ID, all []*finding) (again unsettled, events []Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, now := l.bound[p], time.Now()
	for _, f := range all {
		e := f.entry
		if s == nil || s.Peer != peer || e.state != settling {
			continue // the next scan is of it as it is bound now
		}
		switch _, unfit := errors.AsType[unfitError](f.fault); {
		case f.file != nil && f.file.version != e.version:
			continue // the next scan finds another file
		case f.file != nil:
			e.hash, e.rank = f.file.hash, f.rank
		case !unfit: // it may be readable at the next scan
			e.reason = f.fault.Error()
			continue
		}
		if f.flaw != "" {
			e.restTime = invalidRestTime
		}
		switch wait := e.restLeft(now); {
		case f.delivered.known && f.delivered.hash == f.file.hash:
			e.set(Delivered, "")
			e.since = f.delivered.at
			if f.delivered.consumed {
				e.consumedHash = f.file.hash
			}
		case f.delivered.known:
			events = append(events, e.park(peer, "it was changed after it was delivered, and a message never changes: give it another name to send it")...)
		case f.arrived:
			events = append(events, e.park(peer, "it came from another machine, and mail is not sent on")...)
		case wait > 0:
			e.reason = fmt.Sprintf("%s: %s; it is taken as it is when it has rested for %s", beingWritten, f.flaw, invalidRestTime)
			again.add(e.file, wait)
		case f.fault != nil:
			events = append(events, e.park(peer, f.fault.Error())...)
		default:
			e.set(Waiting, "")
			q := l.queueOf(peer)
			q.stale = true
			q.wake()
		}
	}
	return again, events
}

// requeue makes a refused entry one that waits; the reason stays until the peer has
// answered. The caller holds l.mu.
func (l *ledger) requeue(e *entry) {
	e.set(Waiting, e.reason)
	e.nextTry = time.Time{}
	q := l.queueOf(l.bound[e.mailbox].Peer)
	q.stale = true
	q.wake()
}

// requeueRefused offers what the peer of an inbox has refused, or would not take yet, and
// reports whether there was any. The caller holds l.mu.
func (l *ledger) requeueRefused(s *boundInbox) (any bool) {
	for _, e := range s.entries {
		if e.refused || e.state == Waiting {
			any = any || e.refused || e.tries > 0
			l.requeue(e)
		}
	}
	return any
}

// retryRefused offers a peer what it has refused, or would not take yet, because it has
// given a reason to: at once, but not twice in a minute. The caller holds l.mu.
func (l *ledger) retryRefused(peer identity.ID) {
	q, now := l.queueOf(peer), time.Now()
	if q.retryPending = now.Sub(q.retriedAt) < retryRefusedEvery; q.retryPending {
		return
	}
	for _, s := range l.bound {
		if s.Peer == peer && l.requeueRefused(s) {
			q.retriedAt = now
		}
	}
}

// removable returns the entries, of some files or of all for nil, whose copies here are to
// go: their agent is done with its own, or they were delivered long enough ago.
func (l *ledger) removable(p mailbox, which names) (all []*entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.bound[p]
	if s == nil {
		return nil
	}
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

// removeEntry notes that an entry's file was removed.
func (l *ledger) removeEntry(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.state = gone
	if s := l.bound[e.mailbox]; s != nil && s.entries[e.file] == e {
		delete(s.entries, e.file)
	}
}

// setReason notes why an entry's copy does not go, and reports whether that is news.
func (l *ledger) setReason(e *entry, reason string) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	news = e.reason != reason
	e.reason = reason
	return news
}

// recheckGone has the next scan find what the store knows of files that are gone.
func (l *ledger) recheckGone(p mailbox) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.bound[p]; s != nil {
		s.goneRecorded = false
	}
}

// stateOf returns the peer to which an agent is bound, and the state of a file's entry, ""
// if there is none. bound is false if the agent is hosted here.
func (l *ledger) stateOf(p mailbox, file string) (peer identity.ID, state State, bound bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.bound[p]
	if s == nil {
		return identity.ID{}, "", false
	}
	if e := s.entries[file]; e != nil {
		state = e.state
	}
	return s.Peer, state, true
}

// noteConsumed notes what of a file the agent at its peer is done with.
func (l *ledger) noteConsumed(p mailbox, peer identity.ID, file string, hash [32]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.bound[p]; s != nil && s.Peer == peer && s.entries[file] != nil {
		s.entries[file].consumedHash = hash
		l.markDirty(p, names{file: {}})
	}
}

// queued returns what the queue says of the files of bound agents, of a project or of all
// for "".
func (l *ledger) queued(project string) (all []Queued) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, s := range l.bound {
		if project != "" && p.project != project {
			continue
		}
		for _, e := range s.entries {
			if e.state != gone {
				all = append(all, l.describeEntry(s, e))
			}
		}
	}
	return all
}

// queuedFile is queued of one file, nil if it is not there.
func (l *ledger) queuedFile(p mailbox, file string) *Queued {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.bound[p]
	if s == nil || s.entries[file] == nil || s.entries[file].state == gone {
		return nil
	}
	q := l.describeEntry(s, s.entries[file])
	return &q
}

// describeEntry returns what the queue says of an entry. The caller holds l.mu.
func (l *ledger) describeEntry(s *boundInbox, e *entry) Queued {
	d := Queued{Project: s.Project, Agent: s.Agent, Peer: s.Peer, File: e.file, Hash: e.hash, Size: e.version.size, State: e.state.shown(), Reason: e.reason, Since: e.since}
	if e.state == Waiting || e.state == sending {
		if q := l.queues[s.Peer]; q != nil && d.Reason == "" {
			d.Reason = q.trouble
		}
	}
	return d
}
