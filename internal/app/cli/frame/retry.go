package frame

import (
	"context"
	"time"

	"github.com/acpd/acpd/internal/pace"
)

// RetryWhile calls until the error is nil, again says no to the error, or limit has passed. It
// blocks between the calls, for pauses that grow up to most. The caller's again must say no to
// an error after which the call may have arrived.
func RetryWhile(ctx context.Context, limit, most time.Duration, again func(error) bool, call func() error) error {
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
