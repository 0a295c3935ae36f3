package web

import (
	"cmp"
	"maps"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// peerState says whether a peer is connected.
type peerState struct {
	id        identity.ID
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
		s := peerState{id: p.ID, connected: p.State == client.PeerConnected, seen: client.Time{Time: p.LastSeen.Truncate(time.Second)}}
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

// agentsOfTasks has the agents at peers that delegations from here went to, as messages have told. The
// daemon itself keeps the agent that a delegation is for, and none if it is for any.
type agentsOfTasks map[taskKey]string

type taskKey struct {
	peer identity.ID
	id   wire.MessageID
}

// maxAgentsOfTasks bounds how many are known.
const maxAgentsOfTasks = 1000

// noteAgent learns from a message that has passed, or a call that is open, to which agent a delegation from here went: from the
// delegation itself, and from what the peer says about it.
func (w *work) noteAgent(e *client.TrafficEntry) {
	key, agent := taskKey{peer: e.Peer}, ""
	switch {
	case e.Kind == kinds.KindDelegate && e.Direction == client.Out:
		key.id, agent = e.ID, e.Agent
	case (e.Kind == kinds.KindQuery || kinds.Has(e.Kind, kinds.Report)) && e.Direction == client.In:
		key.id, agent = e.Ref, e.FromAgent
	}
	if key.id.IsZero() || agent == "" {
		return
	}
	if w.agents == nil {
		w.agents = make(agentsOfTasks)
	}
	if _, known := w.agents[key]; !known && len(w.agents) >= maxAgentsOfTasks {
		open := make(map[wire.MessageID]bool)
		for i := range w.tasks {
			if t := &w.tasks[i]; t.Direction == client.Given && !isOver(t) {
				open[t.ID] = true
			}
		}
		maps.DeleteFunc(w.agents, func(k taskKey, _ string) bool { return !open[k.id] })
		if len(w.agents) >= maxAgentsOfTasks {
			return
		}
	}
	w.agents[key] = agent
}

// findAgent returns the agent at a peer that a delegation from here went to; "" if that is not known.
func (w *work) findAgent(t *client.Task) string {
	return cmp.Or(t.ToAgent, w.agents[taskKey{w.peers[t.Peer].id, t.ID}])
}
