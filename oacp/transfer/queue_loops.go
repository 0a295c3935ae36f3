package transfer

import (
	"context"
	"sync"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// startAndStopLoops starts the loops that deliver and report to peers if they are needed, and
// stops the others. Only Run calls it. It adds the loops to tasks.
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

// listUntrustedPeers returns, by untrusted peer that has a queue, why its mail waits.
func (m *Mailer) listUntrustedPeers() map[identity.ID]string {
	why := make(map[identity.ID]string)
	for _, peer := range m.ledger.listPeersWithQueue() {
		if !m.cfg.Trusted(peer) {
			why[peer] = kinds.Errorf(kinds.UnknownPeer, "%s is not trusted here: acpctl trust %s to go on, or acpctl oacp unbind the agent", m.cfg.Name(peer), peer).Error()
		}
	}
	return why
}
