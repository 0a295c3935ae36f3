package daemon

import (
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

const (
	chainKeptFor  = 30 * time.Minute // after a session was shown a message
	maxChainsKept = 64               // of one peer
)

// shownChains remembers the chains of messages that sessions were shown lately. Such a message
// may have come long ago, so that nothing else remembers it, and what follows from it must not
// begin a new chain.
type shownChains struct {
	mu     sync.Mutex // guards byPeer
	byPeer map[identity.ID][]shownChain
}

type shownChain struct {
	id    wire.MessageID
	chain wire.Chain
	at    time.Time
}

func newShownChains() *shownChains { return &shownChains{byPeer: make(map[identity.ID][]shownChain)} }

// add remembers the chain of a message. It forgets the oldest of the peer if there are too many.
func (c *shownChains) add(env *wire.Envelope) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := slices.DeleteFunc(c.byPeer[env.From], func(s shownChain) bool { return s.id == env.ID || now.Sub(s.at) >= chainKeptFor })
	if n := len(kept) - maxChainsKept + 1; n > 0 {
		kept = slices.Delete(kept, 0, n)
	}
	c.byPeer[env.From] = append(kept, shownChain{env.ID, env.Chain(), now})
}

// find returns the sender and the chain of a message.
func (c *shownChains) find(id wire.MessageID) (identity.ID, wire.Chain, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for peer, shown := range c.byPeer {
		if i := slices.IndexFunc(shown, func(s shownChain) bool { return s.id == id && time.Since(s.at) < chainKeptFor }); i >= 0 {
			return peer, shown[i].chain, true
		}
	}
	return identity.ID{}, wire.Chain{}, false
}

// forgetPeer forgets the messages of a peer.
func (c *shownChains) forgetPeer(peer identity.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byPeer, peer)
}
