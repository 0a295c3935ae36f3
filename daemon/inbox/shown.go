package inbox

import (
	"maps"
	"slices"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/wire"
)

// owner is the name under which the showing of the owner is kept; no agent has it.
const owner = ""

// showings holds what the owner and agents were shown of the inbox since the daemon started: they may
// acknowledge only that. It has as many agents as can be attached: the agent that read least recently is
// forgotten first, and has to read the inbox again. The owner is never forgotten.
type showings struct{ agents []showing } // the one that read last is the last

type showing struct {
	agent string
	seqs  map[uint64]wire.MessageID
}

// recordShown adds what an agent was shown.
func (s *showings) recordShown(agent string, seqs map[uint64]wire.MessageID, isHeld func(wire.MessageID) bool) {
	now := showing{agent, seqs}
	if i := slices.IndexFunc(s.agents, func(o showing) bool { return o.agent == agent }); i >= 0 {
		now = s.agents[i]
		s.agents = slices.Delete(s.agents, i, i+1)
		maps.Copy(now.seqs, seqs)
	}
	s.agents = append(s.agents, now)
	if len(s.agents) > registry.MaxAgents {
		oldest := slices.IndexFunc(s.agents, func(o showing) bool { return o.agent != owner })
		s.agents = slices.Delete(s.agents, oldest, oldest+1)
	}
	if int64(len(now.seqs)) > budget.Inbox.All+budget.Results.All { // more than can be held
		maps.DeleteFunc(now.seqs, func(_ uint64, id wire.MessageID) bool { return !isHeld(id) })
	}
}

// forgetShown removes what an agent has acknowledged.
func (s *showings) forgetShown(agent string, seqs []uint64) {
	for _, o := range s.agents {
		if o.agent == agent {
			for _, seq := range seqs {
				delete(o.seqs, seq)
			}
		}
	}
}

// countShown counts the messages that an agent was shown.
func (s *showings) countShown(agent string, seqs []uint64) (n int) {
	for _, o := range s.agents {
		if o.agent != agent {
			continue
		}
		for _, seq := range seqs {
			if _, ok := o.seqs[seq]; ok {
				n++
			}
		}
	}
	return n
}

// findAcknowledged returns those messages that an ack names and the agent was shown, in their order.
func (s *showings) findAcknowledged(agent string, p *client.AckParams) (seqs []uint64) {
	i := slices.IndexFunc(s.agents, func(o showing) bool { return o.agent == agent })
	if i < 0 {
		return nil
	}
	named := make(map[wire.MessageID]bool, len(p.IDs))
	for _, id := range p.IDs {
		named[id] = true
	}
	for seq, id := range s.agents[i].seqs {
		if seq <= p.UpTo || named[id] {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	return seqs
}
