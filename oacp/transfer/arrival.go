package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/message"
)

// arrivalState is the state of an arrival, as the store has it.
type arrivalState string

// The states of an arrival.
const (
	writing  arrivalState = "writing"  // the file may exist
	stored   arrivalState = "stored"   // the file exists, and the sender may know
	consumed arrivalState = "consumed" // the agent has finished it, and the sender does not know; only in the store
	reported arrivalState = "reported" // the sender knows that
)

// arrival is a message that came from a peer.
type arrival struct {
	key   arrivalKey
	name  string // of the file here
	state arrivalState

	folder uint64 // inode of the folder in which it was seen last; 0 if unknown

	size    int64 // 0 if it came before sizes were stored
	counted bool  // in the peer's shares, with its size
	kept    bool  // it is in ledger.arrivals, and the ledger decides on counted
}

// arrivalKey identifies an arrival. The message's id cannot: a broadcast to two agents of one
// machine comes twice, with the same id, name and bytes.
type arrivalKey struct {
	peer identity.ID
	mailbox
	file string // its name at the sender
	hash [32]byte
}

// localFileName returns the name that the message gets here if it is free: its name at the sender,
// if that is legal.
func (k arrivalKey) localFileName() string {
	if message.IsLegalFileName(k.file) {
		return k.file
	}
	return "unnamed_" + hex.EncodeToString(k.hash[:8]) + extension
}

// tempFileName returns the name under which the message is written. Each attempt uses the same
// name, and no other message has it. So the file that a crash has left behind can be found
// without reading files of others.
func (k arrivalKey) tempFileName() string {
	id := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s/%x/%s", k.peer, k.project, k.agent, k.hash, k.file))
	return "." + k.localFileName() + tempMark + hex.EncodeToString(id[:8])
}

// restoreState sets the state from the store: bindings, the number of arrivals of each peer, and
// the peers that are to get reports.
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
		l.ensureQueue(peer).unreported = true
	}
}

// addArrival adds a stored arrival to the arrivals of its inbox, and lets a consumed one be
// reported. The caller holds l.mu.
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
		q.unreported = true
		q.signalLoops()
	}
}

// removeArrival removes an arrival from those of its inbox. The caller holds l.mu.
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

// beginArrival takes one of the peer's places, and refuses a message that another stream is
// storing. The caller calls leave at the end.
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

// reserveRoom takes room for a message that is about to come. Nobody else has the arrival yet.
// releaseRoom gives the room back.
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

// reserveRoomUnchecked counts a message that is in an inbox, even beyond the bounds. The caller
// holds l.mu.
func (l *ledger) reserveRoomUnchecked(a *arrival) {
	if !a.counted {
		a.counted = true
		l.accounts.files.AddUnchecked(a.key.peer, 1)
		l.accounts.bytes.AddUnchecked(a.key.peer, a.size)
	}
}

// releaseRoom gives back the room of a message that is in no inbox. The caller holds l.mu, or
// nobody else has the arrival.
func (l *ledger) releaseRoom(a *arrival) {
	if a.counted {
		a.counted = false
		l.accounts.files.Release(a.key.peer, 1)
		l.accounts.bytes.Release(a.key.peer, a.size)
	}
}

// releaseInboxRoom gives back the room of the arrivals in an inbox that does not exist.
func (l *ledger) releaseInboxRoom(p mailbox) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, all := range l.arrivals[p] {
		for _, a := range all {
			l.releaseRoom(a)
		}
	}
}

// markArrivalStored adds a message that was stored, and requests a scan of its inbox: the scan
// begins to watch the inbox, and the message may be gone already.
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

// matchArrivalsWithFiles compares the arrivals of an inbox with the files that a scan of some
// names, or of all if scanned is nil, has found in the folder with that inode. It returns the
// arrivals that are missing, and those that are in another folder than before, as after a
// restored backup.
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
			default: // the folder was replaced
				l.releaseRoom(a)
			}
		}
	}
	return missing, moved
}

// refileArrivals moves arrivals to where addArrival puts those of their states.
func (l *ledger) refileArrivals(all ...*arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range all {
		l.removeArrival(a)
		l.addArrival(a)
	}
}
