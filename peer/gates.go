package peer

import "net"

// gates bounds what strangers may cost on one link. Each link has its own, so that a flood on one
// takes nothing from the strangers and joiners of another.
type gates struct {
	handshakes *handshakeLimits
	strangers  strangerLimit // strangers whose hello is being read
	joiners    strangerLimit // invitations being redeemed
	wrongToken chan struct{} // holds one while a wrong token waits for its answer

	sourceOf func(net.Addr) source // of a stranger
}

// Strangers whose hello is read at a time, while an authority is configured. A source may begin
// provedPerSourcePerSecond handshakes. So a NAT's machines find a place if each says hello within 0.4 s
// of its handshake, and silent strangers of one source take an eighth of the places.
const (
	ofFleet          = 64
	ofFleetPerSource = 8
)

// newGates returns the gates of a link. hasAuthorities reports whether strangers may show valid
// certificates.
func newGates(handshakes *handshakeLimits, sourceOf func(net.Addr) source, hasAuthorities func() bool) gates {
	return gates{
		handshakes: handshakes,
		strangers:  strangerLimit{all: 8, perSource: 2, ofFleet: ofFleet, ofFleetPerSource: ofFleetPerSource, isFleet: hasAuthorities},
		joiners:    strangerLimit{all: 8, perSource: 4},
		wrongToken: make(chan struct{}, 1),
		sourceOf:   sourceOf,
	}
}

// newUDPGates returns the gates of the UDP socket. A peer is known at the address where it last
// proved its key.
func (n *Node) newUDPGates() gates {
	return newGates(newHandshakeLimits(newHandshakeSource, n.proved.knownPeer), newHostSource, n.cfg.Trust.HasAuthorities)
}

// newLinkGates returns the gates of a link. The id that a sender claims is its source. All senders
// that claim no trusted id share one rate of handshakes, since anybody can make ids; a
// trusted id is a known peer once its address is proved. While an authority is configured, an id that
// is not blocked has a rate of its own then, under one for all such: so one sender keeps out no fleet,
// and many ids cost no more than strangers on UDP.
func (n *Node) newLinkGates(link Link) gates {
	claimed := func(addr net.Addr) source {
		if id := link.Sender(addr); !id.IsZero() {
			return source{text: id.String()}
		}
		return source{text: addr.String()}
	}
	knownPeer := func(addr net.Addr) (source, bool) {
		_, trusted := n.cfg.Trust.FindPeer(link.Sender(addr))
		return claimed(addr), trusted
	}
	handshakeSource := func(addr net.Addr) source {
		s, trusted := knownPeer(addr)
		if !trusted && !link.Sender(addr).IsZero() {
			return source{}
		}
		return s
	}
	limits := newHandshakeLimits(handshakeSource, knownPeer)
	limits.maybePeer = func(addr net.Addr) (source, bool) {
		id := link.Sender(addr)
		return claimed(addr), !id.IsZero() && n.mayDial(id)
	}
	limits.maxHalfOpen = maxHalfOpenOnLink
	return newGates(limits, claimed, n.cfg.Trust.HasAuthorities)
}
