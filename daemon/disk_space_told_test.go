package daemon

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/integration/await"
)

// TestLowDiskIsToldOf: the status tells of it while it lasts.
func TestLowDiskIsToldOf(t *testing.T) {
	t.Parallel()
	var free atomic.Uint64
	free.Store(1 << 40)
	dir := stateDir(t)
	writeConfig(t, dir, "limits: {min_free: 134217728}\noacp: {home: "+dir+"/mail}\n")
	desk := startWith(t, Options{Home: dir, Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, measure: func(path string) (disk.Space, error) {
		if free := free.Load(); free >= 1<<20 || path != dir {
			return disk.Space{Free: free, Total: 1 << 41}, nil
		}
		return disk.Space{Free: 1 << 40, Total: 1 << 41}, nil // of mail alone
	}})
	warnings := func() []string {
		var s client.Status
		desk.dial().must("status", nil, &s)
		return s.Warnings
	}
	for _, c := range []struct {
		free uint64
		want string
	}{
		{1 << 40, ""},
		{20<<20 + 1, "the disk of " + dir + " has 20 MiB free: what peers send is refused below 128 MiB (limits.min_free); free some space"},
		{1<<20 - 1, "the disk of " + dir + "/mail has 0 MiB free: mail of peers is refused below 128 MiB (limits.min_free); free some space"},
		{1 << 40, ""},
	} {
		free.Store(c.free)
		await.Until(t, "the status says: "+c.want, func() bool { return strings.Join(warnings(), "\n") == c.want })
	}
}

// TestStatusLooksAtTheDisk: what it tells is not what was so a second ago; a disk that
// stands still keeps it no longer than a moment.
func TestStatusLooksAtTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Uint64
		free.Store(1 << 40)
		still := make(chan struct{})
		look := func(string) (disk.Space, error) {
			n := free.Load()
			if n == 1 {
				<-still
			}
			return disk.Space{Free: n, Total: 1 << 41}, nil
		}
		d := &Daemon{home: "/state", mailHome: "/mail", log: slog.New(slog.DiscardHandler)}
		d.space = diskSpace{state: disk.NewFloor("/state", 128<<20, look), mail: disk.NewFloor("/mail", 128<<20, look)}
		ctx, cancel := context.WithCancel(t.Context())
		go d.watchDiskSpace(ctx)
		told := func() string {
			d.measureDiskSpace(t.Context())
			return d.describeFullDisk()
		}
		time.Sleep(measurePause / 2)
		free.Store(20 << 20)
		if text := told(); !strings.Contains(text, "has 20 MiB free") {
			t.Errorf("on a disk that has become full: %q", text)
		}
		time.Sleep(measurePause / 4)
		free.Store(1)
		before := time.Now()
		for range 2 {
			if text := told(); !strings.Contains(text, "has 20 MiB free") {
				t.Errorf("on a disk that stands still: %q", text)
			}
		}
		if took := time.Since(before); took > 2*measureWait {
			t.Errorf("a disk that stands still keeps it for %s", took)
		}
		close(still)
		cancel()
		synctest.Wait()
	})
}

// TestWhichShortageIsTold: inodes and a read-only disk are told as what they are, by status and by a check of readiness.
func TestWhichShortageIsTold(t *testing.T) {
	for want, left := range map[string]disk.Space{
		"": {TotalFiles: 200, FreeFiles: 200},
		"the disk of /state has almost no inodes free: what peers send is refused; remove files there (df -i counts them)":                {TotalFiles: 200},
		"the disk of /state is read-only: what peers send is refused; mount it for writing, and if an error made it so, look at the disk": {ReadOnly: true},
	} {
		left.Free, left.Total = 1<<40, 1<<41
		look := func(string) (disk.Space, error) { return left, nil }
		d := &Daemon{home: "/state", mailHome: "/mail"}
		d.space = diskSpace{state: disk.NewFloor("/state", 0, look), mail: disk.NewFloor("/mail", 0, look)}
		d.space.state.Measure()
		d.space.mail.Measure()
		if got := d.describeFullDisk(); got != want {
			t.Errorf("%+v: %q, want %q", left, got, want)
		}
	}
}

// TestLowDiskIsLogged: once when it begins, and once when it is over; a disk on the edge
// makes no further lines.
func TestLowDiskIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log await.Output
		var free atomic.Uint64
		look := func(string) (disk.Space, error) { return disk.Space{Free: free.Load()}, nil }
		d := &Daemon{home: "/state", mailHome: "/mail", log: slog.New(slog.NewTextHandler(&log, nil))}
		d.space.state, d.space.mail = disk.NewFloor("/state", 128<<20, look), disk.NewFloor("/mail", 128<<20, look)
		ctx, cancel := context.WithCancel(t.Context())
		go d.watchDiskSpace(ctx)
		lines := func() int { return strings.Count(log.String(), "\n") }
		for n := range 100 {
			free.Store(uint64(n%2) << 30)
			time.Sleep(10 * measurePause)
			synctest.Wait()
		}
		if lines() != 1 || !strings.Contains(log.String(), "the disk of /state has 0 MiB free: ") {
			t.Errorf("on the edge the log says %s", log.String())
		}
		time.Sleep(2 * fullDiskLogPause)
		synctest.Wait()
		if lines() != 2 || !strings.Contains(log.String(), "the disk has space again") {
			t.Errorf("and with space %s", log.String())
		}
		free.Store(0)
		time.Sleep(2 * fullDiskLogPause)
		synctest.Wait()
		if lines() != 3 {
			t.Errorf("and the next time %s", log.String())
		}
		cancel()
		synctest.Wait()
	})
}
