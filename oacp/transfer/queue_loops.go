package transfer

import (
	"context"
	"sync"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// startAndStopLoops starts and stops the loops that deliver and report to peers, as they are
// needed. Only Run calls it; tasks waits for the loops.
func (m *Mailer) startAndStopLoops(ctx context.Context, tasks *sync.WaitGroup) {
	start, stop := m.ledger.planQueueLoops(m.listUntrustedPeers())
	for _, q := range stop {
		q.stop()
	}
	for _, q := range start {
		run, stop := context.WithCancel(ctx)
		q.stop = stop
		for _, loop := range []func(context.Context, *peerQueue){m.deliverLoop, m.reportLoop} {
			tasks.Go(func() {
				loop(run, q)
				if m.ledger.countEndedLoop(q) {
					stop()
				}
			})
		}
	}
}

// listUntrustedPeers returns the peers that have a queue and are not trusted, with the text that
// says why their mail waits.
func (m *Mailer) listUntrustedPeers() map[identity.ID]string {
	why := make(map[identity.ID]string)
	for _, peer := range m.ledger.listPeersWithQueue() {
		if !m.cfg.Trusted(peer) {
			why[peer] = kinds.Errorf(kinds.UnknownPeer, "%s is not trusted here: acpctl trust %s to go on, or acpctl oacp unbind the agent", m.cfg.Name(peer), peer).Error()
		}
	}
	return why
}
