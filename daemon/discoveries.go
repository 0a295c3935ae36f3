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
	discoveredFor     = time.Minute
	maxDiscoveries    = 256
	maxDiscoveryBytes = 64 << 10 // a larger answer is not kept
)

// discoveries keeps what peers said they can do, for a minute and as long as it is
// the same run of their daemon.
type discoveries struct {
	mu    sync.Mutex // guards found
	found map[discoveryKey]discovery
}

type discoveryKey struct {
	peer  identity.ID
	agent string
}

type discovery struct {
	answer *client.Answer
	boot   wire.Boot
	at     time.Time
}

func newDiscoveries() *discoveries { return &discoveries{found: make(map[discoveryKey]discovery)} }

// get returns a fresh answer of that run of the peer, or nil.
func (c *discoveries) get(key discoveryKey, boot wire.Boot) *client.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.found[key]
	if !ok || known.boot != boot || time.Since(known.at) >= discoveredFor {
		return nil
	}
	return known.answer
}

func (c *discoveries) put(key discoveryKey, boot wire.Boot, answer *client.Answer) {
	if len(answer.Payload) > maxDiscoveryBytes {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.found) >= maxDiscoveries {
		for key, old := range c.found {
			if now.Sub(old.at) >= discoveredFor {
				delete(c.found, key)
			}
		}
		if len(c.found) >= maxDiscoveries {
			clear(c.found)
		}
	}
	c.found[key] = discovery{answer, boot, now}
}

// purge forgets a peer.
func (c *discoveries) purge(peer identity.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.found {
		if key.peer == peer {
			delete(c.found, key)
		}
	}
}
