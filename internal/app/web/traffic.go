package web

import (
	"context"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

const (
	trafficWait  = 500 * time.Millisecond // after which open calls are looked at again, if nothing ends
	trafficPause = 100 * time.Millisecond // after entries, to gather the next ones
)

// trafficParts are what is read with the traffic.
var trafficParts = []string{partLines, partWaiting}

// watchTraffic puts messages on the board, and who waits for whom, until ctx ends. A later call goes
// on where this one ended, as far as the daemon has kept what passed meanwhile.
func (w *watcher) watchTraffic(ctx context.Context) {
	p := &client.TrafficParams{After: w.cursor, Open: true} // the first call waits for nothing
	for ctx.Err() == nil {
		a, err := w.watching.Traffic(ctx, p)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			// The polls tell of a daemon that is away. What was open when it went stays on the board,
			// unless an older one has come, which has no traffic to show.
			if e, ok := asCoded(err); !ok || e.Code != kinds.DaemonUnavailable {
				w.setTrafficProblem(showLine(err.Error(), maxShown))
			}
			if client.IsOlderDaemon(err) {
				w.setWork(func(k *work) { k.open, k.openMore = nil, 0 })
			}
			p.WaitMS = 0
			pace.Sleep(ctx, awayPause)
			continue
		}
		w.addEntries(a.Entries, a.Lost)
		w.setWork(func(k *work) { k.open, k.openMore = a.Open, a.OpenMore })
		w.setTrafficProblem("") // now that the board has what is open
		w.cursor = a.Next
		p.After, p.WaitMS = a.Next, uint64(trafficWait.Milliseconds())
		if len(a.Entries) > 0 {
			pace.Sleep(ctx, trafficPause)
		}
	}
}

func (w *watcher) setTrafficProblem(why string) {
	for _, part := range trafficParts {
		w.board.setProblem(part, why)
	}
}

// addEntries puts entries on the board, behind a line that says how many nobody has read in time.
func (w *watcher) addEntries(entries []client.TrafficEntry, lost uint64) {
	var lines []*line
	if lost > 0 {
		lines = append(lines, &line{At: time.Now(), Lost: lost})
	}
	for i := range entries {
		lines = append(lines, newMessageLine(&entries[i]))
	}
	addLines(w.board, lines)
}
