package known

import (
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

const (
	chainKeptFor  = 30 * time.Minute
	maxChainsKept = 64 // of one peer
)

// recentChains remembers the chains of messages that agents had lately, and that nothing else remembers: what
// follows from them must not begin a new chain. There is one for what sessions were shown, which may have come
// long ago, and one for queries that have ended.
type recentChains struct {
	mu     sync.Mutex // guards what follows
	byPeer map[identity.ID][]recentChain
	sender map[wire.MessageID]identity.ID // of each of them: every message that comes is looked for
}

type recentChain struct {
	id         wire.MessageID
	chain      wire.Chain
	at         time.Time
	agents     []registry.KeyHash // that had the message
	unanswered bool               // it is a query that has ended without an answer
}

func newRecentChains() *recentChains {
	return &recentChains{byPeer: make(map[identity.ID][]recentChain), sender: make(map[wire.MessageID]identity.ID)}
}

// add remembers the chain of a message that an agent has. It forgets the oldest of the peer if there are too
// many.
func (c *recentChains) add(env *wire.Envelope, agent registry.KeyHash, unanswered bool) {
	now := time.Now()
	agents := []registry.KeyHash{agent}
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.byPeer[env.From]
	if i := slices.IndexFunc(kept, func(r recentChain) bool { return r.id == env.ID }); i >= 0 {
		agents = append(agents, slices.DeleteFunc(kept[i].agents, func(had registry.KeyHash) bool { return had == agent })...)
		kept = slices.Delete(kept, i, i+1)
	}
	old := max(len(kept)-maxChainsKept+1, 0)
	for old < len(kept) && now.Sub(kept[old].at) >= chainKeptFor {
		old++
	}
	c.forget(env.From, kept[:old])
	c.byPeer[env.From] = append(slices.Delete(kept, 0, old), recentChain{env.ID, env.Chain(), now, agents, unanswered})
	c.sender[env.ID] = env.From
}

// forget forgets who sent some messages of a peer. The caller holds mu.
func (c *recentChains) forget(peer identity.ID, some []recentChain) {
	for _, r := range some {
		if c.sender[r.id] == peer {
			delete(c.sender, r.id)
		}
	}
}

// find returns what is remembered of a message that the holder had, nil for any agent, and its sender.
func (c *recentChains) find(by *registry.Credential, id wire.MessageID) (from identity.ID, found recentChain, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from, known = c.sender[id]
	if !known {
		return from, found, false
	}
	kept := c.byPeer[from]
	found = kept[slices.IndexFunc(kept, func(r recentChain) bool { return r.id == id })]
	return from, found, time.Since(found.at) < chainKeptFor && (by == nil || slices.Contains(found.agents, by.KeyHash))
}

// forgetPeer forgets the messages of a peer.
func (c *recentChains) forgetPeer(peer identity.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(peer, c.byPeer[peer])
	delete(c.byPeer, peer)
}
