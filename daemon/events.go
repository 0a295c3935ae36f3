package daemon

import (
	"log/slog"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/peer"
)

// observer notifies the services of each message that passes. It implements [peer.Observer].
type observer struct{ d *Daemon }

func (o observer) Began(p *peer.Passing) {
	o.d.drain.Began(p)
	o.d.watch.Began(p)
}

func (o observer) Ended(p *peer.Passing) {
	o.d.drain.Ended(p)
	o.d.watch.Ended(p)
	o.d.measures.Ended(p)
}

// handlePeerEvent tells the services of an event of package peer. It does not block.
func (d *Daemon) handlePeerEvent(e peer.Event) {
	switch e.Type {
	case peer.EventDialEnded:
		d.measures.CountDial(e.Err)
	case peer.EventDecertified:
		// The messages of the key are kept, as they are for a peer that is not connected, and so are the outcomes for
		// its repeats: it may renew its certificate, and repeat a message whose receipt was lost.
		d.refusalLog.WriteLimited(e.Peer, slog.LevelInfo, "certificate ended", "peer", e.Peer.Label())
		d.budget.ForgetRefusals(e.Peer)
		d.outgoing.Forget(e.Peer)
		d.known.ForgetPeer(e.Peer)
		d.agents.ForgetPeer(e.Peer)
	case peer.EventUp, peer.EventDown:
		if e.Type == peer.EventUp {
			d.kept.TryNow(e.Peer)
		}
		if e.Type == peer.EventDown || d.permissions.MayUseBridge(e.Peer, config.PolicyMail) {
			d.mail.SetConnected(e.Peer, e.Type == peer.EventUp)
		}
		if e.Type == peer.EventDown || d.permissions.MayUseBridge(e.Peer, config.PolicyChannel) {
			d.channels.SetPeerConnected(e.Peer, e.Type == peer.EventUp)
		}
	case peer.EventAgents:
		d.kept.TryNow(e.Peer)
	case peer.EventRefused:
		d.calls.Go(func() { d.tasks.EndRefusedBy(e.Peer, e.At) })
	}
	d.peers.HandleEvent(e)
}
