package transfer

import (
	"cmp"
	"sort"
	"time"

	"github.com/acpd/acpd/identity"
)

// boundInbox is the inbox of a bound agent, with its entries. ledger.mu guards both.
type boundInbox struct {
	Binding
	entries      map[string]*entry
	goneRecorded bool // the store knows of the files that went while no daemon ran

	peerStatus   string // the agent's status that its peer has sent
	fileStatus   string // the status in its status.yaml
	fileStatusAt time.Time
}

func newBoundInbox(b Binding) *boundInbox {
	return &boundInbox{Binding: b, entries: make(map[string]*entry)}
}

// clearEntries forgets all entries. A delivery that is under way then changes nothing when it
// ends. The caller holds ledger.mu.
func (s *boundInbox) clearEntries() {
	for _, e := range s.entries {
		e.state = gone
	}
	clear(s.entries)
}

// findBoundPeer returns the peer to which an agent is bound; ok is false if the agent is hosted here.
func (l *ledger) findBoundPeer(p mailbox) (peer identity.ID, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.bound[p]; s != nil {
		return s.Peer, true
	}
	return peer, false
}

// isAgentBoundTo reports whether an agent of a project, or any if agent is empty, lives at a peer.
func (l *ledger) isAgentBoundTo(peer identity.ID, project, agent string) bool {
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

// listBindings returns the bindings of a project, or of all projects if project is empty, sorted
// by name.
func (l *ledger) listBindings(project string) []Binding {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Binding, 0, len(l.bound))
	for p, s := range l.bound {
		if project == "" || p.project == project {
			all = append(all, s.Binding)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].mailbox().compare(all[j].mailbox()) < 0 })
	return all
}

// addBinding notes a binding. If the agent was bound to another peer, the messages that it has
// not finished go to the new one.
func (l *ledger) addBinding(b Binding) {
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
		s.clearEntries()
	}
	s.Binding = b
	l.requeueRefusedEntries(s)
	l.markFilesDirtyLocked(p, nil)
	q := l.ensureQueue(b.Peer) // it gets the statuses of the agents here
	q.stale = true
	q.requestAnnouncement()
}

// removeBinding forgets a binding and its entries, and returns it; bound is false if there
// was none.
func (l *ledger) removeBinding(p mailbox) (b Binding, bound bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.bound[p]
	if s == nil {
		return b, false
	}
	s.clearEntries()
	delete(l.bound, p)
	l.changed.Set() // the loops of its peer may not be needed any more
	return s.Binding, true
}

// planStatusWrite returns the status for the status.yaml of a bound agent, and whether to write it
// now. After a write too short a time ago, the next rescan asks again.
func (l *ledger) planStatusWrite(p mailbox, now time.Time) (status string, write bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.bound[p]
	if s == nil {
		return "", false
	}
	status = offline
	if l.connected[s.Peer] {
		status = cmp.Or(s.peerStatus, available)
	}
	since := now.Sub(s.fileStatusAt)
	if s.fileStatus == status && since < statusEvery || since < statusPause {
		return "", false
	}
	s.fileStatus, s.fileStatusAt = status, now
	return status, true
}

// recordPresence notes the status of an agent that lives at a peer. The peer is also offered
// again what it has refused.
func (l *ledger) recordPresence(from identity.ID, p mailbox, status string) {
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
			l.markFilesDirtyLocked(p, names{})
		}
	}
	if !known {
		return
	}
	l.retryRefusedByPeer(from)
	if l.peerAgents[from] == nil {
		l.peerAgents[from] = make(map[mailbox]struct{})
	}
	if len(l.peerAgents[from]) < maxAnnounced {
		l.peerAgents[from][p] = struct{}{}
	}
}

// findTwinAgents returns the agents of a project, or of all projects if project is empty, that a
// peer has announced and that are bound to no peer.
func (l *ledger) findTwinAgents(project string) (all []Twin) {
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
