package web

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestPauseAfter(t *testing.T) {
	for _, c := range []struct {
		pause, took time.Duration
		err         error
		want        time.Duration
	}{
		{time.Minute, 0, nil, time.Minute},
		{time.Minute, time.Hour, nil, 20 * time.Hour},
		{time.Minute, 0, errNoChannels, failedPause},
		{time.Minute, time.Second, errNoChannels, failedPause},
		{time.Second, 0, errNoChannels, time.Second},
		{time.Second, daemonPatience, errNoChannels, daemonPatience},
	} {
		if got := (poll{pause: c.pause}).pauseAfter(c.took, c.err); got != c.want {
			t.Errorf("pause %v, after %v in %v: %v", c.pause, c.err, c.took, got)
		}
	}
}

// TestReadOnceMore: what changes while it is read is read once more, behind what has been due for longer.
func TestReadOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatcher(Options{Socket: "/nowhere/acp.sock"}, newBoard())
		read := func(part string, changes ...string) {
			w.readPart(t.Context(), poll{part: part, pause: time.Minute, read: func(*watcher, context.Context) error {
				time.Sleep(time.Second / 2)
				w.readSoon(changes...)
				time.Sleep(time.Second / 2)
				return nil
			}})
		}
		next := func(want string, wantWait time.Duration) {
			t.Helper()
			if p, wait := w.nextPoll(); p.part != want || wait != wantWait {
				t.Errorf("%s in %v, want %s in %v", p.part, wait, want, wantWait)
			}
		}
		for _, p := range polls {
			read(p.part)
		}
		last := time.Duration(len(polls)-1) * time.Second // since the first was read
		next(partDaemon, time.Minute-last)
		read(partPeers, partPeers)
		next(partPeers, -time.Second/2)
		w.readSoon(partApprovals)
		next(partPeers, -time.Second/2)
		read(partPeers, partPeers)
		next(partApprovals, -time.Second)
		read(partApprovals)
		next(partPeers, -3*time.Second/2)
		read(partPeers)
		next(partDaemon, time.Minute-last-4*time.Second)
	})
}
