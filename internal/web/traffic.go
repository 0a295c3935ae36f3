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

// watchTraffic puts messages on the board, and who waits for whom, until ctx ends.
func (w *watcher) watchTraffic(ctx context.Context) {
	p := &client.TrafficParams{Open: true}
	for ctx.Err() == nil {
		a, err := w.watching.Traffic(ctx, p)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			// The polls tell of a daemon that is away. An older one has no traffic to show.
			if client.IsOlderDaemon(err) {
				w.board.setProblem(partLines, showLine(err.Error(), maxShown))
			}
			w.setWork(func(k *work) { k.open = nil })
			w.watching.Close() // what comes next is a new watch
			p = &client.TrafficParams{Open: true}
			pace.Sleep(ctx, awayPause)
			continue
		}
		w.board.setProblem(partLines, "")
		entries := a.Entries
		if p.After == 0 {
			entries = w.dropSeen(entries)
		}
		w.addEntries(entries, a.Lost)
		w.setWork(func(k *work) { k.open = a.Open })
		p.After, p.WaitMS = a.Next, uint64(trafficWait.Milliseconds())
		if len(entries) > 0 {
			pace.Sleep(ctx, trafficPause)
		}
	}
}

// dropSeen returns the entries of a new watch that are not on the board yet. If the daemon keeps a
// history, a new watch begins with what an older one has seen.
func (w *watcher) dropSeen(entries []client.TrafficEntry) []client.TrafficEntry {
	for i := range entries {
		if e := &entries[i]; e.Seq == w.seen.Seq && e.ID == w.seen.ID && e.Direction == w.seen.Direction {
			return entries[i+1:]
		}
	}
	return entries
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
	if len(entries) > 0 {
		w.seen = entries[len(entries)-1]
	}
}
