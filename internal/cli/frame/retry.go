package frame

import (
	"context"
	"time"

	"github.com/acpd/acpd/internal/pace"
)

// Retry repeats a call, which cannot have arrived, for as long as limit while again says so.
// The pauses grow up to most.
func Retry(ctx context.Context, limit, most time.Duration, again func(error) bool, call func() error) error {
	end := time.Now().Add(limit)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, most) {
		err := call()
		left := time.Until(end)
		if err == nil || ctx.Err() != nil || !again(err) || left <= 0 {
			return err
		}
		if err := pace.Sleep(ctx, min(pause, left)); err != nil {
			return err
		}
	}
}
