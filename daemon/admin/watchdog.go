package admin

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/acpd/acpd/internal/pace"
)

// The watchdog of systemd is fed feedsPerPeriod times in its period while nothing stands still.
const feedsPerPeriod = 4

// RunWatchdog feeds systemd's watchdog until ctx ends, if systemd asks for that, while all parts move.
func (s *Systemd) RunWatchdog(ctx context.Context, parts []MovingPart) error {
	period, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		s.Log.Warn("systemd's watchdog is not fed", "err", err)
	}
	if period <= 0 {
		return nil
	}
	s.feedWatchdog(ctx, period, parts, func() { s.Tell(stateFed) })
	return nil
}

// feedWatchdog calls feed each time that all parts have come round, until ctx ends. A part that
// stands still starves the watchdog; the log names it before systemd ends the daemon. An error,
// as of a full disk, is a move too: the daemon would be started again for nothing.
func (s *Systemd) feedWatchdog(ctx context.Context, period time.Duration, parts []MovingPart, feed func()) {
	for pace.Sleep(ctx, period/feedsPerPeriod) == nil {
		var still standing
		var moves sync.WaitGroup
		for _, p := range parts {
			still.add(p.Name)
			moves.Go(func() { p.AwaitRound(ctx); still.remove(p.Name) })
		}
		late := time.AfterFunc(period/2, func() {
			s.Log.Error("something stands still: systemd will start acpd again unless it moves", "what", still.String())
		})
		moves.Wait()
		late.Stop()
		if ctx.Err() == nil {
			feed()
		}
	}
}

// standing lists the parts that have not moved yet.
type standing struct {
	mu    sync.Mutex // guards parts
	parts []string
}

func (s *standing) add(part string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = append(s.parts, part)
}

func (s *standing) remove(part string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = slices.DeleteFunc(s.parts, func(p string) bool { return p == part })
}

func (s *standing) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.parts, ", ")
}
