package admin

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/store"
)

// TestShutdownDuringACheck: a check that is under way when the daemon ends is over then, and says why.
func TestShutdownDuringACheck(t *testing.T) {
	dir := t.TempDir()
	db, err := store.OpenDB(t.Context(), filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	socket, err := local.OpenOwnerSocket(t.Context(), filepath.Join(dir, "acp.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	look := func(string) (disk.Space, error) { return disk.Space{Free: 1 << 40, Total: 1 << 41}, nil }
	begun, leaving := make(chan struct{}), make(chan struct{})
	var calls sync.WaitGroup
	defer calls.Wait()
	r := &Readiness{
		Socket: socket, CheckUDP: func(context.Context) error { return nil }, Store: db, Space: openSpace(t, 0, slog.DiscardHandler, look),
		IsLeaving: func() bool { return false }, Leaving: leaving, Calls: &calls,
		Loops: []MovingPart{{"one that is stuck", func(ctx context.Context) error { close(begun); <-ctx.Done(); return ctx.Err() }}},
	}
	if got := r.Check(t.Context()); len(got) != 1 || !strings.Contains(got[0], "starting") {
		t.Errorf("before it serves it says %q", got)
	}
	r.SetServing()
	unready := make(chan []string, 1)
	go func() { unready <- r.Check(t.Context()) }()
	await.Receive(t, "the check is under way", begun)
	close(leaving)
	if got := await.Receive(t, "the end of the check", unready); len(got) != 1 || !strings.Contains(got[0], "shutting down") {
		t.Errorf("it says %q", got)
	}
}

// The watchdog is fed four times in its period, and not at all while a part stands still.
func TestWatchdogPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Systemd{Log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		fed, hung := 0, make(chan bool, 1)
		moving := MovingPart{"a", func(context.Context) error { return nil }}
		stuck := MovingPart{"b", func(ctx context.Context) error {
			select {
			case hung <- true:
				<-hung
			case <-ctx.Done():
			}
			return nil
		}}
		var ended sync.WaitGroup
		ended.Go(func() { s.feedWatchdog(ctx, time.Minute, []MovingPart{moving, stuck}, func() { fed++ }) })
		step := func(what string, d time.Duration, want int) {
			time.Sleep(d) // on the virtual clock
			synctest.Wait()
			if fed != want {
				t.Errorf("%s: fed %d times, want %d", what, fed, want)
			}
		}
		step("while all move", time.Minute+time.Second, 4)
		hung <- true // the next round waits for its place
		step("while one stands still", time.Hour, 4)
		<-hung
		step("when it moves again", time.Minute-time.Second, 8)
		cancel()
		ended.Wait()
	})
}
