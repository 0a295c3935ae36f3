package pace

import (
	"context"
	"log/slog"
	"time"
)

// retryPause is the time between attempts to write what the disk did not take.
const retryPause = 2 * time.Second

// Saver writes to disk what changes in memory. Changes that come together share a write.
type Saver struct {
	What    string          // what it writes, for the log
	Changed <-chan struct{} // a signal that is set if something is not written
	Pause   time.Duration   // for which a write waits after a change
	Save    func(context.Context) error
	Log     *slog.Logger
}

// Run writes until ctx ends, and then once more. What cannot be written is tried again. The log says when that begins,
// and when it is over.
func (s Saver) Run(ctx context.Context) error {
	failing := false
	for ended := false; !ended; {
		if failing {
			_ = Sleep(ctx, retryPause)
		} else {
			_ = Gather(ctx, s.Changed, s.Pause)
		}
		ended = ctx.Err() != nil // if it ends while Save runs, what changes meanwhile is written too
		err := s.Save(context.WithoutCancel(ctx))
		switch {
		case err == nil && failing:
			s.Log.Info(s.What + ": on disk again")
		case err != nil && !failing:
			s.Log.Error(s.What+": not on disk yet, and tried again until it is; a restart forgets the change", "err", err)
		}
		failing = err != nil
	}
	return nil
}
