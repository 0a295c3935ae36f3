package agents

import (
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
)

const (
	maxAwaited = 64 // names of one peer
	awaitedFor = 7 * 24 * time.Hour
)

// awaitedAgents remembers for which agents messages of peers were refused because none was attached, to tell these
// peers when one has come. "" is any agent.
type awaitedAgents struct {
	mu     sync.Mutex
	byPeer map[identity.ID]map[string]time.Time // by the agent's name, when a message was refused last
}

// add remembers that a message of a peer was refused. If there are too many names of the peer, it forgets the oldest.
func (w *awaitedAgents) add(peer identity.ID, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := w.byPeer[peer]
	if names == nil {
		names = make(map[string]time.Time)
		if w.byPeer == nil {
			w.byPeer = make(map[identity.ID]map[string]time.Time)
		}
		w.byPeer[peer] = names
	}
	names[name] = time.Now()
	if len(names) <= maxAwaited {
		return
	}
	oldest := name
	for other, at := range names {
		if at.Before(names[oldest]) {
			oldest = other
		}
	}
	delete(names, oldest)
}

// take returns the peers that await the agent of a name, and forgets that they do.
func (w *awaitedAgents) take(name string) (peers []identity.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for peer, names := range w.byPeer {
		if time.Since(names[name]) < awaitedFor || time.Since(names[""]) < awaitedFor {
			peers = append(peers, peer)
		}
		delete(names, name)
		delete(names, "")
		if len(names) == 0 {
			delete(w.byPeer, peer)
		}
	}
	return peers
}

// ForgetPeer forgets which agents a peer awaits.
func (s *Service) ForgetPeer(peer identity.ID) {
	s.awaited.mu.Lock()
	defer s.awaited.mu.Unlock()
	delete(s.awaited.byPeer, peer)
}
