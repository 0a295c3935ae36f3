package mailbox

import (
	"context"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// rescanPause is the longest pause between scans. The system loses notices under load,
	// and gives none on network file systems.
	rescanPause = 2 * time.Second

	// settleTime is the time for which a file that looks unfinished must stay unchanged.
	settleTime = 300 * time.Millisecond

	// gatherTime is the pause between a notice and the scan, in which further notices come.
	gatherTime = 5 * time.Millisecond
)

// scanOnFolderChange calls scan now, whenever something happens in one of the folders that it
// returned, and at least every [rescanPause], or after [settleTime] if it says soon. It
// returns when scan says done or fails, or when ctx ends.
func scanOnFolderChange(ctx context.Context, scan func() (folders []string, soon, done bool, err error)) error {
	var events chan fsnotify.Event
	var lost chan error
	watcher, err := fsnotify.NewWatcher()
	if err == nil { // else the system has no more watches to give: rescanning does
		defer watcher.Close()
		events, lost = watcher.Events, watcher.Errors
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	hurried := true // the timer is not to be set again: notices without end put nothing off
	hurry := func(d time.Duration) {
		if !hurried {
			hurried = true
			timer.Reset(d)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-events:
			hurry(gatherTime)
			continue
		case <-lost: // some notices: the scan finds those changes too
			hurry(gatherTime)
			continue
		case <-timer.C:
		}
		folders, soon, done, err := scan()
		if done || err != nil {
			return err
		}
		hurried = false
		timer.Reset(rescanPause)
		if soon {
			timer.Reset(settleTime)
		}
		if watcher == nil {
			continue
		}
		watched := watcher.WatchList()
		for _, dir := range folders {
			if !slices.Contains(watched, dir) && watcher.Add(dir) == nil {
				hurry(0) // files may have come before the watch
			}
		}
	}
}
