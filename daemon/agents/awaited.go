package agents

import (
	"sync"

	"github.com/acpd/acpd/identity"
)

// maxAwaited bounds the names that one peer awaits.
const maxAwaited = 64

// awaitedAgents remembers for which agents messages of peers were refused because none was attached, to tell these
// peers once when one has come. "" is any agent.
type awaitedAgents struct {
	mu     sync.Mutex
	byPeer map[identity.ID]map[string]bool // by the agent's name
}

// add remembers that a message of a peer was refused, unless there are too many names of the peer.
func (w *awaitedAgents) add(peer identity.ID, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byPeer == nil {
		w.byPeer = make(map[identity.ID]map[string]bool)
	}
	if w.byPeer[peer] == nil {
		w.byPeer[peer] = make(map[string]bool)
	}
	if names := w.byPeer[peer]; len(names) < maxAwaited {
		names[name] = true
	}
}

// take returns the peers that await the agent of a name, and forgets that they do.
func (w *awaitedAgents) take(name string) (peers []identity.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for peer, names := range w.byPeer {
		if names[name] || names[""] {
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
