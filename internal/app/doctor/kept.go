package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/acpd/acpd/client"
)

// keptLong is for how long a message may be kept before its sender should know why.
const keptLong = 24 * time.Hour

// examineKept tells for which peers messages have been kept for long, and why the oldest of each was not sent.
func (x *examination) examineKept(ctx context.Context) {
	if x.status == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	tasks, err := x.Daemon.Tasks(ctx)
	if err != nil {
		return // another finding has that the daemon does not answer
	}
	kept := make(map[string][]client.Task) // by peer, the oldest first
	var peers []string
	for _, t := range slices.Backward(tasks) {
		if t.Kept == nil || time.Since(t.Began.Time) < keptLong {
			continue
		}
		if kept[t.Peer] == nil {
			peers = append(peers, t.Peer)
		}
		kept[t.Peer] = append(kept[t.Peer], t)
	}
	for _, peer := range peers[:min(len(peers), maxListed)] {
		oldest, name := kept[peer][0], client.Line(peer)
		what := fmt.Sprintf("%d messages for %s have been kept for more than a day; the oldest is %s: %s", len(kept[peer]), name, oldest.ID, client.Line(oldest.Kept.LastError))
		x.add("message.kept", name, what, fmt.Sprintf("acpctl doctor %s says whether it is reached; acpctl tasks lists them, and acpctl cancel %s withdraws that one", name, oldest.ID))
	}
}
