// Package await is how long tests wait, and how: for what must come there is patience,
// and nothing waits longer than it has to.
package await

import (
	"context"
	"testing"
	"time"
)

// Patience is how long a test waits for what must come.
const Patience = 20 * time.Second

// Context is one that ends with the test and with its patience.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Until asks again until it holds: for what somebody else decides when.
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

// From receives what comes, or the zero value if the channel is closed.
func From[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Patience):
		t.Fatalf("not within %s: %s", Patience, what)
		panic("unreachable")
	}
}

// Within fails the test where something that is over took too long.
func Within(t testing.TB, what string, took, limit time.Duration) {
	t.Helper()
	t.Logf("%s: %s", what, took.Round(time.Millisecond))
	if took > limit {
		t.Errorf("%s took %s, want at most %s", what, took, limit)
	}
}
