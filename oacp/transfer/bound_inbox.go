package transfer

import (
	"slices"
	"time"

	"github.com/acpd/acpd/identity"
)

// boundInbox is the inbox of a bound agent, with its entries. ledger.mu guards both.
type boundInbox struct {
	Binding
	entries      map[string]*entry
	goneRecorded bool // the store has no file for here that went while nobody looked

	peerStatus    string // of the agent, as its peer says
	fileStatus    string // what its status.yaml says
	fileStatusAt  time.Time
	statusPlanned bool // status.yaml is written again soon
}

func newBoundInbox(b Binding) *boundInbox {
	return &boundInbox{Binding: b, entries: make(map[string]*entry)}
}

// abandonEntries forgets all entries: a delivery that is under way changes nothing when it
// ends. The caller holds ledger.mu.
func (s *boundInbox) abandonEntries() {
	for _, e := range s.entries {
		e.state = gone
	}
	clear(s.entries)
}

// bindingOf returns an agent's binding, and whether all bindings are taken.
func (l *ledger) bindingOf(p mailbox) (b Binding, bound, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.bound[p]
	if s != nil {
		b = s.Binding
	}
	return b, s != nil, len(l.bound) >= maxBindings
}

// boundPeer returns the peer to which an agent is bound; ok is false if the agent is hosted here.
func (l *ledger) boundPeer(p mailbox) (peer identity.ID, ok bool) {
	b, ok, _ := l.bindingOf(p)
	return b.Peer, ok
}

// isBoundTo reports whether an agent of a project, or any for "", lives at a peer.
func (l *ledger) isBoundTo(peer identity.ID, project, agent string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if agent != "" {
		s := l.bound[mailbox{project, agent}]
		return s != nil && s.Peer == peer
	}
	for p, s := range l.bound {
		if p.project == project && s.Peer == peer {
			return true
		}
	}
	return false
}

// bindings returns the bindings of a project, or of all for "", by their names.
func (l *ledger) bindings(project string) []Binding {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Binding, 0, len(l.bound))
	for p, s := range l.bound {
		if project == "" || p.project == project {
			all = append(all, s.Binding)
		}
	}
	slices.SortFunc(all, func(a, b Binding) int { return a.mailbox().compare(b.mailbox()) })
	return all
}

// bind notes a binding. An agent that was bound to another peer takes its entries along:
// what it has not dealt with goes to the peer where it lives now.
func (l *ledger) bind(b Binding) {
	p := b.mailbox()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.bound[p]
	if s == nil {
		s = newBoundInbox(b)
		l.bound[p] = s
	}
	if s.Peer != b.Peer {
		s.peerStatus = ""
		s.abandonEntries()
	}
	s.Binding = b
	l.requeueRefused(s)
	l.markDirty(p, nil)
	q := l.queueOf(b.Peer) // which learns that its agents' states matter here now
	q.stale = true
	q.announceAgain()
}

// unbind forgets a binding and its entries, and returns what it was.
func (l *ledger) unbind(p mailbox) (b Binding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.bound[p]; s != nil {
		b = s.Binding
		s.abandonEntries()
		delete(l.bound, p)
	}
	l.changed.Set() // the loops of its peer may not be needed any more
	return b
}

// planStatus returns what the status.yaml of a bound agent is to say, and whether it is to
// be written now. If it changed too soon after the last, it is to be written after again.
func (l *ledger) planStatus(p mailbox, now time.Time) (status string, write bool, again time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.bound[p]
	if s == nil {
		return "", false, 0
	}
	status = offline
	if l.connected[s.Peer] {
		status = available
		if s.peerStatus != "" {
			status = s.peerStatus
		}
	}
	since := now.Sub(s.fileStatusAt)
	if s.fileStatus == status && since < statusEvery {
		return "", false, 0
	}
	if since < statusPause {
		if !s.statusPlanned {
			s.statusPlanned, again = true, statusPause-since
		}
		return "", false, again
	}
	s.fileStatus, s.fileStatusAt = status, now
	return status, true, 0
}

// statusDue has a status written that changed too soon after the last.
func (l *ledger) statusDue(p mailbox) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.bound[p]; s != nil {
		s.statusPlanned = false
		l.markDirty(p, names{})
	}
}

// notePresence notes how an agent is that lives at a peer. Word from the peer is also a
// reason to offer it again what it has refused.
func (l *ledger) notePresence(from identity.ID, p mailbox, status string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := false
	for o, s := range l.bound {
		if s.Peer != from || o.project != p.project {
			continue
		}
		known = true
		if o == p && (status == available || status == busy || status == offline) {
			s.peerStatus = status
			l.markDirty(p, names{})
		}
	}
	if !known {
		return
	}
	l.retryRefused(from)
	if l.peerAgents[from] == nil {
		l.peerAgents[from] = make(map[mailbox]struct{})
	}
	if len(l.peerAgents[from]) < maxAnnounced {
		l.peerAgents[from][p] = struct{}{}
	}
}

// twins returns the agents of a project, or of all for "", that a peer says live there and
// that are bound to nobody.
func (l *ledger) twins(project string) (all []Twin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for peer, agents := range l.peerAgents {
		for p := range agents {
			if _, bound := l.bound[p]; !bound && (project == "" || p.project == project) {
				all = append(all, Twin{p.project, p.agent, peer})
			}
		}
	}
	return all
}
