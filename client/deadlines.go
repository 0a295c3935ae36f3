package client

import (
	"time"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// timeoutOrDefault returns a timeout_ms as a duration, kinds.MaxTaskDeadline at most, or
// fallback if it is 0.
func timeoutOrDefault(ms uint64, fallback time.Duration) time.Duration {
	if ms == 0 {
		return fallback
	}
	return time.Duration(min(ms, uint64(kinds.MaxTaskDeadline.Milliseconds()))) * time.Millisecond
}

// parseQueryTimeout returns the deadline of a query with that payload.
func parseQueryTimeout(payload wire.Payload) time.Duration {
	q, err := kinds.ParsePayload[kinds.Query](payload)
	if err != nil {
		return kinds.DefaultQueryDeadline // the daemon refuses it at once
	}
	return min(timeoutOrDefault(q.DeadlineMS, kinds.DefaultQueryDeadline), kinds.MaxQueryDeadline)
}

// parseDelegateTimeout returns how long giving a task with that payload may take.
func parseDelegateTimeout(payload wire.Payload) time.Duration {
	d, err := kinds.ParsePayload[kinds.Delegate](payload)
	if err != nil || d.DeadlineMS == 0 {
		return kinds.AckDeadline
	}
	return min(timeoutOrDefault(d.DeadlineMS, kinds.AckDeadline), kinds.AckDeadline)
}
