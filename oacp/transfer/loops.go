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

// superviseQueues starts the loops of couriers that have a peer to serve and ends those of others:
// of a peer that is trusted no more, and of one to which no agent is bound and nothing is
// to be told. Only Run calls it; tasks waits for the loops.
func (m *Mailer) superviseQueues(ctx context.Context, tasks *sync.WaitGroup) {
	distrusted := m.whyUntrusted()
	m.mu.Lock()
	defer m.mu.Unlock()
	bound := make(map[identity.ID]bool, len(m.queues))
	for _, s := range m.bound {
		bound[s.Peer] = true
	}
	for peer, k := range m.queues {
		why := distrusted[peer]
		needed := bound[peer] || k.hasWork()
		switch {
		case why != "":
			k.trouble, k.untrusted = why, true
		case k.untrusted: // it is trusted again
			k.unreachedPause, k.unreachedUntil, k.trouble, k.untrusted = 0, time.Time{}, "", false
		}
		switch on := needed && !k.untrusted; {
		case on && k.running == 0:
			var run context.Context
			run, k.stop = context.WithCancel(ctx)
			k.running = 2
			tasks.Go(func() { m.deliverLoop(run, k); m.loopEnded(k) })
			tasks.Go(func() { m.reportLoop(run, k); m.loopEnded(k) })
		case !on && k.running > 0:
			k.stop()
		case !needed && k.running == 0:
			delete(m.queues, peer)
		}
	}
}

// whyUntrusted says, of the peers that have a courier and are not trusted, why their mail
// waits.
func (m *Mailer) whyUntrusted() map[identity.ID]string {
	m.mu.Lock()
	peers := slices.Collect(maps.Keys(m.queues))
	m.mu.Unlock()
	why := make(map[identity.ID]string)
	for _, peer := range peers {
		if !m.cfg.Trusted(peer) {
			why[peer] = kinds.Errorf(kinds.UnknownPeer, "%s is not trusted here: acpctl trust its full id to go on, or acpctl oacp unbind the agent", m.cfg.Name(peer)).Error()
		}
	}
	return why
}

// loopEnded notes that one of a courier's loops has ended.
func (m *Mailer) loopEnded(k *peerQueue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k.running--; k.running == 0 {
		k.stop()
		m.changed.Set() // it may be needed again by now
	}
}

// hasWork reports whether there is something to tell the peer, or a delivery or a report is
// under way. The caller holds Mailer.mu.
func (k *peerQueue) hasWork() bool {
	return k.unread || k.reporting || k.sending > 0 || len(k.reports) > 0 || len(k.postponed) > 0
}
