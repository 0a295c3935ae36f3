package watch

import (
	"context"
	"sort"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/traffic"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// listOpenCalls returns the queries and delegations that are open, the oldest first, as many as fit half
// of a line, and how many more there are. If not all fit, peers have turns.
func (s *Service) listOpenCalls(ctx context.Context, f *traffic.Filter) (open []client.TrafficEntry, more int, err error) {
	type call struct {
		entry      client.TrafficEntry
		delegation *delegation.Delegation // nil: a query
	}
	var all []call
	queries, more := s.Traffic.Open.List(f, client.MaxTrafficEntries)
	for _, e := range queries {
		all = append(all, call{entry: e})
	}
	for _, t := range s.Delegations.List(nil, func(t *delegation.Delegation, state client.TaskState) bool { return !t.IsOver(state) }) {
		if e := describeOpenDelegation(t); f.Selects(&e) {
			all = append(all, call{e, t})
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].entry.At.Before(all[j].entry.At) })
	taken := traffic.TakeTurns(len(all), client.MaxTrafficEntries, s.MaxListBytes()/2, func(i int) (identity.ID, int) {
		return all[i].entry.Peer, traffic.MeasureEntry(&all[i].entry) + 2*client.MaxTrafficText // a delegation's text is yet to come
	})
	open = make([]client.TrafficEntry, len(taken))
	var delegations []*delegation.Delegation
	for to, i := range taken {
		open[to] = all[i].entry
		open[to].Name = s.findPetname(open[to].Peer)
		if t := all[i].delegation; t != nil {
			delegations = append(delegations, t)
		}
	}
	tasks, err := s.Delegations.ReadTasks(ctx, delegations)
	if err != nil {
		return nil, 0, err
	}
	for to, i := range taken {
		if t := all[i].delegation; t != nil {
			open[to].Text, tasks = traffic.ClipLine(tasks[0]), tasks[1:]
			open[to].AgentAwaySince = s.Delegations.AgentAwaySince(t)
		}
	}
	return open, more + len(all) - len(taken), nil
}

// describeOpenDelegation returns a delegation that is not over as an open call, without its text.
func describeOpenDelegation(t *delegation.Delegation) client.TrafficEntry {
	e := client.TrafficEntry{
		At: t.Created.UTC(), Direction: client.In, Peer: t.Peer, Agent: t.Agent, FromAgent: t.FromAgent, Kind: kinds.KindDelegate, ID: t.ID,
		Thread: t.Chain.Thread, Hops: t.Chain.Hops, Parent: t.Parent, Guessed: t.Guessed, Chain: t.Chain.TraceID().String(), Bytes: t.Bytes, TookUS: uint64(max(time.Since(t.Created), 0).Microseconds()),
	}
	if t.Direction == client.Given {
		e.Direction, e.Agent, e.FromAgent = client.Out, t.ToAgent, t.Agent
	}
	return e
}
