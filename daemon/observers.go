package daemon

import (
	"context"
	"log/slog"

	"github.com/acpd/acpd/daemon/traffic"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// listObservers returns who is told of each message that passes.
func (d *Daemon) listObservers() observers {
	all := observers{d.drain, d.traffic, envelopeObserver(d.messages.count), newMessageLog(d.log), envelopeObserver(d.subscribers.sendMessage)}
	if d.measures != nil {
		all = append(all, d.measures)
		if d.measures.peers != nil {
			all = append(all, envelopeObserver(d.measures.peers.count))
		}
	}
	return all
}

// observers are told of each message that passes, one after the other.
type observers []peer.Observer

func (all observers) Began(p *peer.Passing) {
	for _, one := range all {
		one.Began(p)
	}
}

func (all observers) Ended(p *peer.Passing) {
	for _, one := range all {
		one.Ended(p)
	}
}

// envelopeObserver is called with each envelope that passes: that of p when it begins, and its reply, which
// goes the other way.
type envelopeObserver func(p *peer.Passing, env *wire.Envelope, inbound bool)

func (tell envelopeObserver) Began(p *peer.Passing) { tell(p, p.Envelope, p.Inbound) }

func (tell envelopeObserver) Ended(p *peer.Passing) {
	if p.Reply != nil {
		tell(p, p.Reply, !p.Inbound)
	}
}

// newMessageLog returns an observer that logs the ids of messages at level debug.
func newMessageLog(log *slog.Logger) envelopeObserver {
	return func(p *peer.Passing, env *wire.Envelope, inbound bool) {
		if log.Enabled(context.Background(), slog.LevelDebug) {
			log.Debug(string(traffic.DirectionOf(inbound)), "kind", env.Kind, "id", env.ID, "peer", p.Peer().Label(), "ref", env.Ref)
		}
	}
}
