package pace

import "sync"

// Bell wakes all that wait for it. The zero value is ready to use.
type Bell struct {
	mu sync.Mutex
	c  chan struct{} // nil while nobody waits
}

// NextRing returns a channel that the next ring closes.
func (b *Bell) NextRing() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

// Ring wakes all that wait.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}
