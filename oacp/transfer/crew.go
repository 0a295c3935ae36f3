package transfer

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// crew starts the loops of couriers that have a peer to serve and ends those of others:
// of a peer that is trusted no more, and of one to which no agent is bound and nothing is
// to be told. Only Run calls it; tasks waits for the loops.
func (c *Carrier) crew(ctx context.Context, tasks *sync.WaitGroup) {
	distrusted := c.distrusted()
	c.mu.Lock()
	defer c.mu.Unlock()
	bound := make(map[identity.ID]bool, len(c.couriers))
	for _, s := range c.spools {
		bound[s.Peer] = true
	}
	for peer, k := range c.couriers {
		why := distrusted[peer]
		needed := bound[peer] || k.owes()
		switch {
		case why != "":
			k.trouble, k.cut = why, true
		case k.cut: // it is trusted again
			k.pause, k.until, k.trouble, k.cut = 0, time.Time{}, "", false
		}
		switch on := needed && !k.cut; {
		case on && k.loops == 0:
			var run context.Context
			run, k.end = context.WithCancel(ctx)
			k.loops = 2
			tasks.Go(func() { c.deliverAll(run, k); c.ended(k) })
			tasks.Go(func() { c.reportAll(run, k); c.ended(k) })
		case !on && k.loops > 0:
			k.end()
		case !needed && k.loops == 0:
			delete(c.couriers, peer)
		}
	}
}

// distrusted says, of the peers that have a courier and are not trusted, why their mail
// waits.
func (c *Carrier) distrusted() map[identity.ID]string {
	c.mu.Lock()
	peers := slices.Collect(maps.Keys(c.couriers))
	c.mu.Unlock()
	why := make(map[identity.ID]string)
	for _, peer := range peers {
		if !c.cfg.Trusted(peer) {
			why[peer] = kinds.Errorf(kinds.UnknownPeer, "%s is not trusted here: acpctl trust its full id to go on, or acpctl oacp unbind the agent", c.cfg.Name(peer)).Error()
		}
	}
	return why
}

// ended notes that one of a courier's loops has ended.
func (c *Carrier) ended(k *courier) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.loops--; k.loops == 0 {
		k.end()
		c.rouse() // it may be needed again by now
	}
}

// rouse has the Run loop go round once. The caller may hold c.mu.
func (c *Carrier) rouse() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// owes reports whether there is something to tell the peer, or a delivery or a report is
// under way. The caller holds Carrier.mu.
func (k *courier) owes() bool {
	return k.untold || k.telling || k.flying > 0 || len(k.reports) > 0 || len(k.alone) > 0
}
