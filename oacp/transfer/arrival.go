package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/message"
)

// arrivalState is the state of an arrival, as the store has it.
type arrivalState string

// The states of an arrival.
const (
	writing  arrivalState = "writing"  // a file may be there
	stored   arrivalState = "stored"   // it is there, and the sender may know
	consumed arrivalState = "consumed" // the agent is done with it, and the sender does not know
	reported arrivalState = "reported" // the sender knows
)

// arrival is a message that came from a peer.
type arrival struct {
	key   arrivalKey
	name  string // of the file here
	state arrivalState

	folder uint64 // in which it was seen last; 0 if that is not known

	size    int64 // 0 if it came before sizes were kept
	counted bool  // it and its size, in the peer's shares
	kept    bool  // it is among ledger.arrivals: the ledger decides on counted

	tries int       // of telling the sender, which did not take this one
	due   time.Time // of the next
}

// arrivalKey identifies an arrival. A message's id does not: a broadcast to two agents behind
// one peer comes twice, with one id, one name and the same bytes.
type arrivalKey struct {
	peer identity.ID
	mailbox
	file string // its name at the sender
	hash [32]byte
}

// localFileName returns the message's name here, if no other message has it: its name at the sender,
// unless that could do harm.
func (k arrivalKey) localFileName() string {
	if message.IsLegalFileName(k.file) {
		return k.file
	}
	return "unnamed_" + hex.EncodeToString(k.hash[:8]) + extension
}

// tempFileName returns the name under which the message is written. It is the same at each
// attempt, and no other message has it. So what a crash leaves behind is found without a look
// at files of others.
func (k arrivalKey) tempFileName() string {
	id := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s/%x/%s", k.peer, k.project, k.agent, k.hash, k.file))
	return "." + k.localFileName() + tempMark + hex.EncodeToString(id[:8])
}

// restoreState takes over what the store has: bindings, the number of arrivals of each peer,
// and the peers to which something is to be reported.
func (l *ledger) restoreState(bindings []Binding, arrivals map[identity.ID]int64, unreported []identity.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range bindings {
		l.bound[b.mailbox()] = newBoundInbox(b)
	}
	for peer, n := range arrivals {
		l.accounts.arrivals.AddUnchecked(peer, n)
	}
	for _, peer := range unreported {
		l.ensureQueue(peer).unread = true
	}
}

// addArrival puts an arrival among those that lie here, if it is stored, or among the
// reports, if it is consumed. The caller holds l.mu.
func (l *ledger) addArrival(a *arrival) {
	switch a.state {
	case stored:
		p := a.key.mailbox
		if l.arrivals[p] == nil {
			l.arrivals[p] = make(map[string][]*arrival)
		}
		l.arrivals[p][a.name] = append(l.arrivals[p][a.name], a)
		l.reserveRoomUnchecked(a)
		a.kept = true
	case consumed:
		q := l.ensureQueue(a.key.peer)
		if len(q.reports) < maxReportsKept {
			q.reports = append(q.reports, a)
		} else {
			q.unread = true
		}
		q.signalLoops()
	}
}

// removeArrival takes an arrival out of those that lie in an inbox. The caller holds l.mu.
func (l *ledger) removeArrival(a *arrival) {
	l.releaseRoom(a)
	p := a.key.mailbox
	left := slices.DeleteFunc(l.arrivals[p][a.name], func(b *arrival) bool { return a == b })
	if len(left) > 0 {
		l.arrivals[p][a.name] = left
		return
	}
	delete(l.arrivals[p], a.name)
	if len(l.arrivals[p]) == 0 {
		delete(l.arrivals, p)
	}
}

// beginArrival takes one of the peer's places and makes sure that no other stream stores the
// same message. The caller calls leave at the end.
func (l *ledger) beginArrival(key arrivalKey) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, twice := l.arriving[key]; twice {
		return nil, &singleMessageError{kinds.Errorf(kinds.Overloaded, "another stream brings the same message just now: it is tried again")}
	}
	if err := l.accounts.underWay.Reserve(key.peer, 1); err != nil {
		return nil, newOverloadedError(err, remedyUnderWay)
	}
	if err := l.accounts.opened.Reserve(key.peer, openedByEach); err != nil {
		l.accounts.underWay.Release(key.peer, 1)
		return nil, newOverloadedError(err, remedyUnderWay)
	}
	l.arriving[key] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.arriving, key)
		l.accounts.underWay.Release(key.peer, 1)
		l.accounts.opened.Release(key.peer, openedByEach)
	}, nil
}

// reserveRoom takes room for a message that is about to come. Only the caller has the
// arrival. releaseRoom gives the room back.
func (l *ledger) reserveRoom(a *arrival) error {
	who := a.key.peer
	if err := l.accounts.files.Reserve(who, 1); err != nil {
		return newOverloadedError(err, remedyUnread)
	}
	if err := l.accounts.bytes.Reserve(who, a.size); err != nil {
		l.accounts.files.Release(who, 1)
		return newOverloadedError(err, remedyUnread)
	}
	a.counted = true
	return nil
}

// reserveRoomUnchecked counts a message that lies in an inbox, even beyond the bounds. The caller holds
// l.mu.
func (l *ledger) reserveRoomUnchecked(a *arrival) {
	if !a.counted {
		a.counted = true
		l.accounts.files.AddUnchecked(a.key.peer, 1)
		l.accounts.bytes.AddUnchecked(a.key.peer, a.size)
	}
}

// releaseRoom gives back the room of a message that lies in no inbox. The caller holds l.mu,
// or is the only one that has the arrival.
func (l *ledger) releaseRoom(a *arrival) {
	if a.counted {
		a.counted = false
		l.accounts.files.Release(a.key.peer, 1)
		l.accounts.bytes.Release(a.key.peer, a.size)
	}
}

// releaseInboxRoom gives back the room of the arrivals in an inbox that is not there.
func (l *ledger) releaseInboxRoom(p mailbox) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, all := range l.arrivals[p] {
		for _, a := range all {
			l.releaseRoom(a)
		}
	}
}

// markArrivalStored adds a message that was stored, and has its inbox scanned: the scan watches the
// inbox from now on, and the message may be gone already.
func (l *ledger) markArrivalStored(a *arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.state = stored
	l.addArrival(a)
	if p := a.key.mailbox; len(l.arrivals[p]) > 1 {
		l.markFilesDirtyLocked(p, names{a.name: {}})
	} else {
		l.markFilesDirtyLocked(p, nil)
	}
}

// releaseRoomUnlessStored gives back the room of a message that was not stored.
func (l *ledger) releaseRoomUnlessStored(a *arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !a.kept {
		l.releaseRoom(a)
	}
}

// matchArrivalsWithFiles compares the arrivals that lie in an inbox with the files
// that a scan of some names, or of all for nil, has found in the folder with that inode. It
// returns the arrivals that are missing, and those that lie in another folder than before,
// as after a restored backup.
func (l *ledger) matchArrivalsWithFiles(p mailbox, inode uint64, found map[string]foundFile, scanned names) (missing, moved []*arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, all := range filterByNames(l.arrivals[p], scanned) {
		_, there := found[name]
		for _, a := range all {
			if there {
				l.reserveRoomUnchecked(a)
			}
			switch {
			case there && a.folder != inode:
				a.folder = inode
				moved = append(moved, a)
			case there:
			case a.folder == inode || a.folder == 0:
				missing = append(missing, a)
			default: // it went with another folder
				l.releaseRoom(a)
			}
		}
	}
	return missing, moved
}

// refileArrivals moves arrivals to the place that their states ask for.
func (l *ledger) refileArrivals(all ...*arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range all {
		l.removeArrival(a)
		l.addArrival(a)
	}
}
