package pace

import "sync"

// Rounds lets others see that a loop continues. The zero value is ready.
type Rounds struct {
	mu   sync.Mutex
	next chan struct{} // nil: nobody waits
}

// Next returns a channel that is closed when the loop comes round next.
func (r *Rounds) Next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = make(chan struct{})
	}
	return r.next
}

// ComeRound is called by the loop, each time that it begins again. It never blocks.
func (r *Rounds) ComeRound() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next != nil {
		close(r.next)
		r.next = nil
	}
}
