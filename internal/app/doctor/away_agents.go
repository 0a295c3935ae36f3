package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/acpd/acpd/client"
)

// examineAwayAgents tells which agents have accepted delegations and are not attached, and names the oldest
// delegation of each: nobody works on those, and both sides show them as accepted.
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
	told := make(map[string]bool)
	for _, t := range slices.Backward(tasks) { // the daemon lists the newest first
		if t.AgentAwaySince.IsZero() || t.Agent == "" || told[t.Agent] || len(told) == maxListed {
			continue
		}
		told[t.Agent] = true
		name, peer := client.Line(t.Agent), client.Line(t.Peer)
		what := fmt.Sprintf("%s is not attached since %s, and has accepted delegations that are open, of which %s from %s is the oldest: nobody works on them", name, formatTime(t.AgentAwaySince), t.ID, peer)
		remedy := fmt.Sprintf("start it under that name again: acpctl serve --name %s, for one, reports what an earlier process had accepted as failed; or, at %s: acpctl cancel %s; else that ends at %s", name, peer, t.ID, formatTime(t.AgentAwaitedUntil))
		x.add("agent.away", name, what, remedy)
	}
}

func formatTime(at client.Time) string { return at.UTC().Format(time.RFC3339) }
