package web

import (
	"context"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/pace"
)

const (
	trafficWait  = 500 * time.Millisecond // after which open calls are looked at again, if nothing ends
	trafficPause = 100 * time.Millisecond // after entries, to gather the next ones
)

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
			// The polls tell of a daemon that is away. An older one has no traffic to show.
			// What was open when it went stays on the board.
			if client.IsOlderDaemon(err) {
				w.board.setProblem(partLines, showLine(err.Error(), maxShown))
				w.setWork(func(k *work) { k.open, k.openMore = nil, 0 })
			}
			p.WaitMS = 0
			pace.Sleep(ctx, awayPause)
			continue
		}
		w.board.setProblem(partLines, "")
		w.addEntries(a.Entries, a.Lost)
		w.setWork(func(k *work) {
			k.open, k.openMore = a.Open, a.OpenMore
			for i := range a.Entries {
				k.noteAgent(&a.Entries[i])
			}
			for i := range a.Open {
				k.noteAgent(&a.Open[i])
			}
		})
		w.cursor = a.Next
		p.After, p.WaitMS = a.Next, uint64(trafficWait.Milliseconds())
		if len(a.Entries) > 0 {
			pace.Sleep(ctx, trafficPause)
		}
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
