package outgoing

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Bounds of the cache of discover's answers.
const (
	capabilitiesKeptFor = time.Minute
	maxCapabilities     = 256
	maxCapabilityBytes  = 64 << 10 // a larger answer is not kept
)

// capabilityCache keeps the answers of peers to discover, for a minute and as long as the
// peer's daemon runs.
type capabilityCache struct {
	mu    sync.Mutex // guards found
	found map[capabilityKey]cachedCapabilities
}

type capabilityKey struct {
	peer  identity.ID
	agent string
}

type cachedCapabilities struct {
	answer *client.Answer
	boot   wire.Boot
	at     time.Time
}

func newCapabilityCache() *capabilityCache {
	return &capabilityCache{found: make(map[capabilityKey]cachedCapabilities)}
}

// get returns a fresh answer of that run of the peer, or nil.
func (c *capabilityCache) get(key capabilityKey, boot wire.Boot) *client.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.found[key]
	if !ok || known.boot != boot || time.Since(known.at) >= capabilitiesKeptFor {
		return nil
	}
	return known.answer
}

func (c *capabilityCache) put(key capabilityKey, boot wire.Boot, answer *client.Answer) {
	if len(answer.Payload) > maxCapabilityBytes {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.found) >= maxCapabilities {
		maps.DeleteFunc(c.found, func(_ capabilityKey, old cachedCapabilities) bool { return now.Sub(old.at) >= capabilitiesKeptFor })
		if len(c.found) >= maxCapabilities {
			clear(c.found)
		}
	}
	c.found[key] = cachedCapabilities{answer, boot, now}
}

// findPeersWithAgent returns the peers that said last that an agent of this name is attached there.
func (c *capabilityCache) findPeersWithAgent(name string) []identity.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []identity.ID
	for key, known := range c.found {
		if slices.Contains(all, key.peer) {
			continue
		}
		said, err := kinds.ParsePayload[kinds.Capabilities](known.answer.Payload)
		if key.agent == name || key.agent == "" && err == nil && slices.Contains(said.Agents, name) {
			all = append(all, key.peer)
		}
	}
	return all
}

// forgetPeer forgets a peer.
func (c *capabilityCache) forgetPeer(peer identity.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.found, func(key capabilityKey, _ cachedCapabilities) bool { return key.peer == peer })
}
