package mailbox

import (
	"context"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// rescan is how often folders are looked at where nothing is heard from the
	// system, which loses notices under load and gives none on network file systems.
	rescan = 2 * time.Second

	// settling is how long a file that looks unfinished must stay unchanged.
	settling = 300 * time.Millisecond

	// gathering is how long a scan waits for what comes with what was heard of.
	gathering = 5 * time.Millisecond
)

// pulse calls scan now, whenever something happens in one of the folders that it
// returned, and at least every [rescan], or after [settling] if it says soon. It
// ends when scan says done or fails, or with ctx.
func pulse(ctx context.Context, scan func() (folders []string, soon, done bool, err error)) error {
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
			hurry(gathering)
			continue
		case <-lost: // the scan finds what the notice was about
			hurry(gathering)
			continue
		case <-timer.C:
		}
		folders, soon, done, err := scan()
		if done || err != nil {
			return err
		}
		hurried = false
		timer.Reset(rescan)
		if soon {
			timer.Reset(settling)
		}
		if watcher == nil {
			continue
		}
		watched := watcher.WatchList()
		for _, dir := range folders {
			if !slices.Contains(watched, dir) && watcher.Add(dir) == nil {
				hurry(0) // what came before the watch
			}
		}
	}
}
