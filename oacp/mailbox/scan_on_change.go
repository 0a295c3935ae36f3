package mailbox

import (
	"context"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// rescanPause is the longest pause between scans. The system drops events under load, and
	// has none for network file systems.
	rescanPause = 2 * time.Second

	// settleTime is how long a file that looks unfinished must stay unchanged.
	settleTime = 300 * time.Millisecond

	// gatherTime is the pause between an event and the scan, in which more events may come.
	gatherTime = 5 * time.Millisecond
)

// scanOnFolderChange calls scan now, after each event in one of the folders that scan returned,
// and at least every [rescanPause], or after [settleTime] if scan returned soon. It returns when
// scan returns done or an error, or when ctx ends.
func scanOnFolderChange(ctx context.Context, scan func() (folders []string, soon, done bool, err error)) error {
	var events chan fsnotify.Event
	var lost chan error
	watcher, err := fsnotify.NewWatcher()
	if err == nil { // else the system has no watches left, and scanning regularly is enough
		defer watcher.Close()
		events, lost = watcher.Events, watcher.Errors
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	hurried := true // the timer is set once for all events, so that many events do not delay the scan
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
		case <-lost: // the scan finds what the lost events were about
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
