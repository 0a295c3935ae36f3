package daemon

import (
	"context"
	"log/slog"

	"github.com/acpd/acpd/client"
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

// envelopeObserver is called with each envelope that passes: requests and messages when they begin, and
// replies. topic is that of a notify.
type envelopeObserver func(env *wire.Envelope, topic string, direction client.MessageDirection)

func (tell envelopeObserver) Began(p *peer.Passing) {
	tell(p.Envelope, p.Topic, traffic.DirectionOf(p))
}

func (tell envelopeObserver) Ended(p *peer.Passing) {
	switch {
	case p.Reply == nil:
	case p.Inbound:
		tell(p.Reply, "", client.Out)
	default:
		tell(p.Reply, "", client.In)
	}
}

// newMessageLog returns an observer that logs the ids of messages at level debug.
func newMessageLog(log *slog.Logger) envelopeObserver {
	return func(env *wire.Envelope, _ string, direction client.MessageDirection) {
		if !log.Enabled(context.Background(), slog.LevelDebug) {
			return
		}
		other := env.From
		if direction == client.Out {
			other = env.To
		}
		log.Debug(string(direction), "kind", env.Kind, "id", env.ID, "peer", other.Label(), "ref", env.Ref)
	}
}
