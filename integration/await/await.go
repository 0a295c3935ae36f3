// Package await lets tests wait for an event, with one bound for all, and no longer than
// until the event comes.
package await

import (
	"context"
	"testing"
	"time"
)

// Patience bounds how long a test waits for an event that must come, on a machine that does much else.
const Patience = 3 * time.Minute

// NewContext returns a context that ends with the test, or after Patience.
func NewContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Until calls holds every 5 ms until it returns true. It fails the test after Patience.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(Patience); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", Patience, what)
		}
	}
}

// Receive returns the next value of a channel, or the zero value if the channel is closed.
// It fails the test after Patience.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Patience):
		t.Fatalf("not within %s: %s", Patience, what)
		panic("unreachable")
	}
}

// CheckDuration logs how long something took, and fails the test if that is over limit.
func CheckDuration(t testing.TB, what string, took, limit time.Duration) {
	t.Helper()
	t.Logf("%s: %s", what, took.Round(time.Millisecond))
	if took > limit {
		t.Errorf("%s took %s, want at most %s", what, took, limit)
	}
}
