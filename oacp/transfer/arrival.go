package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
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

	size    int64 // 0 of what came before sizes were kept
	counted bool  // it and its size, in the peer's shares
	kept    bool  // among ledger.arrivals, which has a say in counted

	tries int       // of telling the sender, which did not take this one
	due   time.Time // of the next
}

// arrivalKey names a message. Its id does not: a broadcast to two agents behind one
// peer is one id, one name and the same bytes, twice.
type arrivalKey struct {
	peer identity.ID
	mailbox
	file string // its name at the sender
	hash [32]byte
}

// name is the message's name here, if no other message has it.
func (k arrivalKey) name() string { return localName(k.file, k.hash) }

// tempName is the name under which the message is written. It is the same at each attempt,
// and no other message's, so that what a crash leaves behind is found without a look at
// files of others.
func (k arrivalKey) tempName() string {
	id := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s/%x/%s", k.peer, k.project, k.agent, k.hash, k.file))
	return "." + k.name() + tempMark + hex.EncodeToString(id[:8])
}

// load takes what the store knows: bindings, how many arrivals there are of each peer, and
// the peers to which something is to be reported.
func (l *ledger) load(bindings []Binding, arrivals map[identity.ID]int64, unreported []identity.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range bindings {
		l.bound[b.mailbox()] = newBoundInbox(b)
	}
	for peer, n := range arrivals {
		l.accounts.arrivals.Add(peer, n)
	}
	for _, peer := range unreported {
		l.queueOf(peer).unread = true
	}
}

// addArrival is placeArrival for a caller that does not hold l.mu.
func (l *ledger) addArrival(a *arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.placeArrival(a)
}

// placeArrival puts an arrival among those that lie here, if it is stored, or among the
// reports, if it is consumed. The caller holds l.mu.
func (l *ledger) placeArrival(a *arrival) {
	switch a.state {
	case stored:
		p := a.key.mailbox
		if l.arrivals[p] == nil {
			l.arrivals[p] = make(map[string][]*arrival)
		}
		l.arrivals[p][a.name] = append(l.arrivals[p][a.name], a)
		l.countRoom(a)
		a.kept = true
	case consumed:
		q := l.queueOf(a.key.peer)
		if len(q.reports) < maxReportsKept {
			q.reports = append(q.reports, a)
		} else {
			q.unread = true
		}
		q.wake()
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

// beginArrival takes one of the peer's places and makes sure that nobody else stores the
// same message.
func (l *ledger) beginArrival(key arrivalKey) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, twice := l.arriving[key]; twice {
		return nil, &singleError{kinds.Errorf(kinds.Overloaded, "another stream brings the same message just now: it is tried again")}
	}
	if err := l.accounts.underWay.Take(key.peer, 1); err != nil {
		return nil, exceeded(err, remedyUnderWay)
	}
	if err := l.accounts.opened.Take(key.peer, openedByEach); err != nil {
		l.accounts.underWay.Give(key.peer, 1)
		return nil, exceeded(err, remedyUnderWay)
	}
	l.arriving[key] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.arriving, key)
		l.accounts.underWay.Give(key.peer, 1)
		l.accounts.opened.Give(key.peer, openedByEach)
	}, nil
}

// reserveRoom takes room for a message that is about to come, which nobody else has yet.
// releaseRoom gives it back.
func (l *ledger) reserveRoom(a *arrival) error {
	who := a.key.peer
	if err := l.accounts.files.Take(who, 1); err != nil {
		return exceeded(err, remedyUnread)
	}
	if err := l.accounts.bytes.Take(who, a.size); err != nil {
		l.accounts.files.Give(who, 1)
		return exceeded(err, remedyUnread)
	}
	a.counted = true
	return nil
}

// countRoom counts a message that lies in an inbox, whatever the bounds say. The caller holds
// l.mu.
func (l *ledger) countRoom(a *arrival) {
	if !a.counted {
		a.counted = true
		l.accounts.files.Add(a.key.peer, 1)
		l.accounts.bytes.Add(a.key.peer, a.size)
	}
}

// releaseRoom gives back the room of a message that lies in no inbox. The caller holds l.mu,
// or nobody else has the arrival.
func (l *ledger) releaseRoom(a *arrival) {
	if a.counted {
		a.counted = false
		l.accounts.files.Give(a.key.peer, 1)
		l.accounts.bytes.Give(a.key.peer, a.size)
	}
}

// releaseInbox gives back the room of what lay in an inbox that is not there.
func (l *ledger) releaseInbox(p mailbox) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, all := range l.arrivals[p] {
		for _, a := range all {
			l.releaseRoom(a)
		}
	}
}

// endStoring adds a message that was stored, and has its inbox scanned: it is watched from
// now on, and the message may be gone already.
func (l *ledger) endStoring(a *arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.state = stored
	l.placeArrival(a)
	if p := a.key.mailbox; len(l.arrivals[p]) > 1 {
		l.markDirty(p, names{a.name: {}})
	} else {
		l.markDirty(p, nil)
	}
}

// endReceiving gives back the room of a message that was not stored.
func (l *ledger) endReceiving(a *arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !a.kept {
		l.releaseRoom(a)
	}
}

// matchArrivals compares the arrivals that lie in an inbox with the files
// that a scan of some names, or of all for nil, has found in the folder with that inode. It
// returns the arrivals that are missing, and those that lie in another folder than before,
// as after a restored backup.
func (l *ledger) matchArrivals(p mailbox, inode uint64, found map[string]foundFile, scanned names) (missing, moved []*arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, all := range selected(l.arrivals[p], scanned) {
		_, there := found[name]
		for _, a := range all {
			if there {
				l.countRoom(a)
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

// endArrivals moves arrivals that are consumed to the reports.
func (l *ledger) endArrivals(all []*arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range all {
		l.removeArrival(a)
		l.placeArrival(a)
	}
}
