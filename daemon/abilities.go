package daemon

import (
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// Bounds of the cache of discover's answers.
const (
	abilitiesFor    = time.Minute
	maxAbilities    = 256
	maxAbilityBytes = 64 << 10 // a larger answer is not kept
)

// abilities keeps what peers said they can do, for a minute and as long as it is
// the same run of their daemon.
type abilities struct {
	mu    sync.Mutex // guards found
	found map[abilityKey]ability
}

type abilityKey struct {
	peer  identity.ID
	agent string
}

type ability struct {
	answer *client.Answer
	boot   wire.Boot
	at     time.Time
}

func newAbilities() *abilities { return &abilities{found: make(map[abilityKey]ability)} }

// get returns a fresh answer of that run of the peer, or nil.
func (c *abilities) get(key abilityKey, boot wire.Boot) *client.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.found[key]
	if !ok || known.boot != boot || time.Since(known.at) >= abilitiesFor {
		return nil
	}
	return known.answer
}

func (c *abilities) put(key abilityKey, boot wire.Boot, answer *client.Answer) {
	if len(answer.Payload) > maxAbilityBytes {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.found) >= maxAbilities {
		for key, old := range c.found {
			if now.Sub(old.at) >= abilitiesFor {
				delete(c.found, key)
			}
		}
		if len(c.found) >= maxAbilities {
			clear(c.found)
		}
	}
	c.found[key] = ability{answer, boot, now}
}

// purge forgets a peer.
func (c *abilities) purge(peer identity.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.found {
		if key.peer == peer {
			delete(c.found, key)
		}
	}
}
