package admin

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
)

// openSpace opens the space of two disks, of which look says what is free. It has no reserve.
func openSpace(t *testing.T, least uint64, log slog.Handler, look func(string) (disk.Space, error)) *Space {
	t.Helper()
	return &Space{
		SpaceConfig: SpaceConfig{Home: "/state", MailHome: "/mail", Budget: new(budget.Book), Log: slog.New(log), Calls: new(sync.WaitGroup)},
		state:       disk.NewFloor("/state", least, look), mail: disk.NewFloor("/mail", least, look),
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
		s := openSpace(t, 128<<20, slog.DiscardHandler, look)
		ctx, cancel := context.WithCancel(t.Context())
		go s.Run(ctx)
		told := func() string {
			s.Measure(t.Context())
			return s.DescribeShortage()
		}
		time.Sleep(measurePause / 2) // on the virtual clock, as are the others here
		free.Store(20 << 20)
		if text := told(); !strings.Contains(text, "has 20 MiB free") {
			t.Errorf("on a disk that has become full: %q", text)
		}
		time.Sleep(measurePause / 4) // so that the pause is not over
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

func TestAFileThatDoesNotFit(t *testing.T) {
	s := openSpace(t, 100, slog.DiscardHandler, func(string) (disk.Space, error) { return disk.Space{Free: 1000, Total: 1 << 41}, nil })
	s.refused = s.Budget.OpenAccount(budget.FreeSpace)
	if err := s.CheckFileRoom(identity.ID{1}, 900); err != nil {
		t.Error(err)
	}
	if err := s.CheckFileRoom(identity.ID{1}, 901); err == nil || !strings.Contains(err.Error(), "no room for a file of 901 bytes") {
		t.Error(err)
	}
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
		s := openSpace(t, 0, slog.DiscardHandler, look)
		s.state.Measure()
		s.mail.Measure()
		if got := s.DescribeShortage(); got != want {
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
		s := openSpace(t, 128<<20, slog.NewTextHandler(&log, nil), look)
		ctx, cancel := context.WithCancel(t.Context())
		go s.Run(ctx)
		lines := func() int { return strings.Count(log.String(), "\n") }
		for n := range 100 {
			free.Store(uint64(n%2) << 30)
			time.Sleep(10 * measurePause) // on the virtual clock
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
