package web

import (
	"cmp"
	"time"

	"github.com/acpd/acpd/client"
)

// peerState says whether a peer is connected.
type peerState struct {
	connected bool
	lost      client.Time // when it ceased to be; null: nobody has looked then
	seen      client.Time // null: never
}

// mapPeers returns the states of peers by their names, and by their ids as text. before is what it
// returned at the last look.
func mapPeers(all []client.Peer, before map[string]peerState, now time.Time) map[string]peerState {
	states := make(map[string]peerState, 2*len(all))
	for i := range all {
		p := &all[i]
		s := peerState{connected: p.State == client.PeerConnected, seen: client.Time{Time: p.LastSeen.Truncate(time.Second)}}
		if was := before[p.ID.String()]; !s.connected {
			if s.lost = was.lost; was.connected {
				s.lost = client.Time{Time: now.UTC()}
			}
		}
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
	s := w.peers[peer]
	if s.connected || w.peers == nil {
		return
	}
	r.Missing = cmp.Or(r.Who.Peer, r.Whom.Peer)
	r.MissingSince, r.MissingSeen = s.lost, s.seen
}
