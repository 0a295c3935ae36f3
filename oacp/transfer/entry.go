package transfer

import (
	"cmp"
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
	settling  State = "settling"  // it may still be being written
	sending   State = "sending"
	gone      State = "gone" // the file is gone, or has changed and has another entry
)

// Arrived is the state of mail that came from a peer.
const Arrived State = "arrived"

// toQueueState returns the state that the queue shows.
func (s State) toQueueState() State {
	if s == settling || s == sending {
		return Waiting
	}
	return s
}

// beingWritten is the reason of an entry that settles.
const beingWritten = "it may still be being written"

// entry is one state of one file in the inbox of a bound agent. A file that changes gets a new
// entry.
type entry struct {
	mailbox        mailbox
	file           string
	version        fileVersion
	unchangedSince time.Time

	whole    bool          // its writer has removed the temporary name
	restTime time.Duration // how long it must stay unchanged, unless it is whole

	hash  [32]byte
	rank  int // by priority and type; the lowest is sent first
	state State
	since time.Time // when it was delivered, else when the file was last changed

	consumedHash [32]byte // of the message that the agent there has finished; the file may have changed since

	reason         string    // why it is parked, waits, or is not removed
	reportedReason string    // the peer's last reason for refusing it that was reported
	refused        bool      // parked because the peer refused it; it is offered again
	tries          int       // failed ones
	nextTry        time.Time // zero if it can be tried now
}

func (e *entry) setState(state State, reason string) {
	e.state, e.reason, e.refused = state, reason, false
}

func (e *entry) toEvent(peer identity.ID) Event {
	return Event{Peer: peer, Project: e.mailbox.project, Agent: e.mailbox.agent, File: e.file, Hash: e.hash, State: e.state, Reason: e.reason, refused: e.refused}
}

// remainingSettleTime returns how much longer the file must stay unchanged before it is read.
func (e *entry) remainingSettleTime(now time.Time) time.Duration {
	if e.whole {
		return 0
	}
	return e.restTime - max(now.Sub(e.unchangedSince), now.Sub(time.Unix(0, e.version.mtime)))
}

// rankMessage returns the rank of a message: lower ones are sent first.
func rankMessage(m message.Message) int {
	rank := 2 * m.PriorityRank()
	if !m.IsRequest() {
		rank++
	}
	return rank
}

// compareUrgency is negative if e is sent before f.
func (e *entry) compareUrgency(f *entry) int {
	return cmp.Or(cmp.Compare(e.rank, f.rank), cmp.Compare(e.file, f.file), e.mailbox.compare(f.mailbox))
}

// unsettledFiles holds files that may still be written, and when to scan them again.
type unsettledFiles struct {
	files names
	wait  time.Duration
}

func (u *unsettledFiles) addFile(file string, wait time.Duration) {
	if u.files == nil {
		u.files, u.wait = make(names), wait
	}
	u.files[file] = struct{}{}
	u.wait = min(u.wait, wait)
}

// entryChanges holds the changes that a scan made to the entries of an inbox.
type entryChanges struct {
	settled   []*entry       // to be read and classified
	missing   []string       // files that are gone
	checkGone bool           // the store may list more files that are gone
	unsettled unsettledFiles // to be scanned again
	events    []Event
}

// updateEntries updates the entries of an inbox from the files that a scan of some names, or
// of all if scanned is nil, has found. bound is false if the agent is no longer bound.
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
		switch wait := e.remainingSettleTime(now); {
		case f.unfit != "" && f.version.size > 0:
			c.events = append(c.events, e.markParked(s.Peer, f.unfit)...)
		case !message.IsLegalFileName(name):
			c.events = append(c.events, e.markParked(s.Peer, "its name: use letters, digits, dots, hyphens and underscores, a letter or digit first, at most 200 bytes, .yaml at the end")...)
		case wait <= 0:
			e.reason = ""
			c.settled = append(c.settled, e)
		default:
			e.reason = cmp.Or(e.reason, beingWritten)
			c.unsettled.addFile(name, wait)
		}
	}
	for name, e := range filterByNames(s.entries, scanned) {
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

// requeueEntry lets a refused entry wait again. Its reason stays until the peer has answered.
// The caller holds l.mu.
func (l *ledger) requeueEntry(e *entry) {
	e.setState(Waiting, e.reason)
	e.nextTry = time.Time{}
	l.ensureQueue(l.bound[e.mailbox].Peer).markReadyStale()
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

// setEntryReason notes why an entry's copy is not removed, and reports whether the reason is
// new.
func (l *ledger) setEntryReason(e *entry, reason string) (isNew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	isNew = e.reason != reason
	e.reason = reason
	return isNew
}

// requestGoneFileCheck makes the next scan ask the store for files that are gone.
func (l *ledger) requestGoneFileCheck(p mailbox) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.bound[p]; s != nil {
		s.goneRecorded = false
	}
}

// findEntryState returns the peer to which an agent is bound, and the state of a file's entry,
// which is empty if there is no entry. bound is false if the agent is hosted here.
func (l *ledger) findEntryState(p mailbox, file string) (peer identity.ID, state State, bound bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.bound[p]; s != nil {
		if e := s.entries[file]; e != nil {
			state = e.state
		}
		return s.Peer, state, true
	}
	return identity.ID{}, "", false
}

// markFileConsumed notes that the agent at its peer has finished the message that a file had.
func (l *ledger) markFileConsumed(p mailbox, peer identity.ID, file string, hash [32]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.bound[p]; s != nil && s.Peer == peer && s.entries[file] != nil {
		s.entries[file].consumedHash = hash
		l.markFilesDirtyLocked(p, names{file: {}})
	}
}

// listQueuedMail returns the lines of the queue for the bound agents of a project, or of all
// projects if project is empty.
func (l *ledger) listQueuedMail(project string) (all []Queued) {
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

// findQueuedMail returns the line of the queue for one file. It returns nil if the file does
// not exist.
func (l *ledger) findQueuedMail(p mailbox, file string) *Queued {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.bound[p]
	if s == nil || s.entries[file] == nil || s.entries[file].state == gone {
		return nil
	}
	return new(l.describeEntry(s, s.entries[file]))
}

// describeEntry returns the line of the queue for an entry. The caller holds l.mu.
func (l *ledger) describeEntry(s *boundInbox, e *entry) Queued {
	d := Queued{Project: s.Project, Agent: s.Agent, Peer: s.Peer, File: e.file, Hash: e.hash, Size: e.version.size, State: e.state.toQueueState(), Reason: e.reason, Since: e.since}
	if e.state == Waiting || e.state == sending {
		if q := l.queues[s.Peer]; q != nil && d.Reason == "" {
			d.Reason = q.trouble
		}
	}
	return d
}
