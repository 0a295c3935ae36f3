package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
)

// awayAgent is an agent that is not attached, with open delegations that it has accepted.
type awayAgent struct {
	name         string
	tasks        []client.Task
	since, until time.Time // until: when the oldest of tasks ends without it
}

// examineAwayAgents tells which agents have accepted delegations and are not attached: nobody works on
// those, and both sides show them as accepted.
func (x *examination) examineAwayAgents(ctx context.Context) {
	if x.status == nil || x.status.TasksTaken == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	tasks, err := x.Daemon.Tasks(ctx)
	if err != nil {
		return // another finding has that the daemon does not answer
	}
	away := listAwayAgents(tasks)
	for _, a := range away[:min(len(away), maxListed)] {
		name, first := client.Line(a.name), &a.tasks[len(a.tasks)-1]
		peer, until := client.Line(first.Peer), formatTime(a.until)
		what := fmt.Sprintf("%s is not attached since %s, and has accepted %d delegations that are open, the oldest of them %s from %s: nobody works on them", name, formatTime(a.since), len(a.tasks), first.ID, peer)
		if len(a.tasks) == 1 {
			what = fmt.Sprintf("%s is not attached since %s, and has accepted the delegation %s from %s: nobody works on it", name, formatTime(a.since), first.ID, peer)
		}
		remedy := fmt.Sprintf("start it under that name again: acpctl serve --name %s, for one, reports what an earlier process had accepted as failed; or, at %s: acpctl cancel %s; else that ends at %s", name, peer, first.ID, until)
		x.add("agent.away", name, what, remedy)
	}
}

// listAwayAgents returns the agents of tasks that are not attached, in the order of their names.
func listAwayAgents(tasks []client.Task) (away []awayAgent) {
	for _, t := range tasks {
		if t.AgentAwaySince.IsZero() || t.Agent == "" {
			continue
		}
		i, found := slices.BinarySearchFunc(away, t.Agent, func(a awayAgent, name string) int { return strings.Compare(a.name, name) })
		if !found {
			away = slices.Insert(away, i, awayAgent{name: t.Agent, since: t.AgentAwaySince.Time})
		}
		a := &away[i]
		a.tasks = append(a.tasks, t) // the newest first, as the daemon lists them
		a.until = t.AgentAwaitedUntil.Time
	}
	return away
}

func formatTime(at time.Time) string { return at.UTC().Format(time.RFC3339) }
