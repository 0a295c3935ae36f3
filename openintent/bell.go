package openintent

import "sync"

// bell wakes all that wait for it.
type bell struct {
	mu sync.Mutex
	c  chan struct{} // nil while nobody waits
}

// nextRing returns a channel that the next ring closes.
func (b *bell) nextRing() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

// ring wakes all that wait.
func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}
