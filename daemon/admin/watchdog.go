package admin

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
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
		moved := make([]atomic.Bool, len(parts))
		var moves sync.WaitGroup
		for i, p := range parts {
			moves.Go(func() { p.AwaitRound(ctx); moved[i].Store(true) })
		}
		late := time.AfterFunc(period/2, func() {
			var still []string
			for i, p := range parts {
				if !moved[i].Load() {
					still = append(still, p.Name)
				}
			}
			s.Log.Error("something stands still: systemd will start acpd again unless it moves", "what", strings.Join(still, ", "))
		})
		moves.Wait()
		late.Stop()
		if ctx.Err() == nil {
			feed()
		}
	}
}
