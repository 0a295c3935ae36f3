package traffic

import (
	"slices"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// Filter selects entries. A list that is empty selects all.
type Filter struct {
	Kinds, Topics, Threads, Agents []string
	Peers                          []identity.ID
}

// Selects reports whether the filter selects an entry. An agent is the one that sent the message or
// that it is for. A topic is the entry's or one above it.
func (f *Filter) Selects(e *client.TrafficEntry) bool {
	switch {
	case len(f.Peers) > 0 && !slices.Contains(f.Peers, e.Peer),
		len(f.Kinds) > 0 && !slices.Contains(f.Kinds, e.Kind),
		len(f.Threads) > 0 && !slices.Contains(f.Threads, e.Thread),
		len(f.Agents) > 0 && !slices.Contains(f.Agents, e.Agent) && !slices.Contains(f.Agents, e.FromAgent):
		return false
	}
	isUnder := func(topic string) bool { return kinds.IsUnderDomain(e.Topic, topic) }
	return len(f.Topics) == 0 || e.Kind == kinds.KindNotify && slices.ContainsFunc(f.Topics, isUnder)
}
