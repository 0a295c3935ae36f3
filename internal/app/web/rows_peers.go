package web

import (
	"cmp"
	"time"

	"github.com/acpd/acpd/client"
)

// peerState says whether a peer is connected.
type peerState struct {
	connected bool
	seen      client.Time // null: never
}

// mapPeers returns the states of peers by their names, and by their ids as text.
func mapPeers(all []client.Peer) map[string]peerState {
	states := make(map[string]peerState, 2*len(all))
	for i := range all {
		p := &all[i]
		s := peerState{p.State == client.PeerConnected, client.Time{Time: p.LastSeen.Truncate(time.Second)}}
		states[p.ID.String()] = s
		if p.Name != "" {
			states[p.Name] = s
		}
	}
	return states
}

// noteMissing says in a row that the peer of its call is not connected, if it is not. peer is its name,
// or its id as text.
func (w *work) noteMissing(r *waitingRow, peer string) {
	if s := w.peers[peer]; w.peers != nil && !s.connected {
		r.Missing, r.MissingSeen = cmp.Or(r.Who.Peer, r.Whom.Peer), s.seen
	}
}
