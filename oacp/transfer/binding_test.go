package transfer

import (
	"sync"
	"testing"
)

// TestUnbindAtOnce: each of several unbinds of one agent returns the binding that it has
// ended, or an error.
func TestUnbindAtOnce(t *testing.T) {
	t.Parallel()
	desk, laptop := bound(t)
	for range 20 {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				b, err := desk.Unbind(t.Context(), "demo", "reviewer")
				if err == nil && (b.Agent != "reviewer" || b.Peer != laptop.key.ID()) {
					t.Errorf("unbind succeeds with %+v", b)
				}
			})
		}
		all.Wait()
		desk.bind("demo", "reviewer", laptop)
	}
}
