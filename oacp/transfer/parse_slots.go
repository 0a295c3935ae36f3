package transfer

import (
	"context"
	"sync"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/message"
)

// parseSlots lets in as many as there are places, and of each peer one at a time, in the order
// in which they come.
type parseSlots struct {
	places int

	mu      sync.Mutex // guards what follows
	busy    map[identity.ID]bool
	waiting []*slotRequest
}

type slotRequest struct {
	peer    identity.ID
	granted chan struct{} // closed when it is let in
}

// enter waits to be let in; leave must be called then. The error is that of ctx.
func (g *parseSlots) enter(ctx context.Context, who identity.ID) (leave func(), err error) {
	v := &slotRequest{who, make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, v)
	g.letIn()
	g.mu.Unlock()
	leave = func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.busy, who)
		g.letIn()
	}
	select {
	case <-v.granted:
		return leave, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	for i, w := range g.waiting {
		if w == v {
			g.waiting = append(g.waiting[:i:i], g.waiting[i+1:]...)
			g.mu.Unlock()
			return nil, ctx.Err()
		}
	}
	g.mu.Unlock()
	leave()
	return nil, ctx.Err()
}

// letIn lets in who may be. The caller holds g.mu.
func (g *parseSlots) letIn() {
	if g.busy == nil {
		g.busy = make(map[identity.ID]bool)
	}
	rest := g.waiting[:0]
	for _, v := range g.waiting {
		if len(g.busy) < g.places && !g.busy[v.peer] {
			g.busy[v.peer] = true
			close(v.granted)
		} else {
			rest = append(rest, v)
		}
	}
	clear(g.waiting[len(rest):])
	g.waiting = rest
}

// parseArrived reads a message that has come. A file that is made for that takes up to 40 MiB of
// memory and half a second to read, so few are read at a time.
func (m *Mailer) parseArrived(ctx context.Context, from identity.ID, data []byte) (message.Message, error) {
	leave, err := m.parsing.enter(ctx, from)
	if err != nil {
		return message.Message{}, kinds.Errorf(kinds.Cancelled, "the daemon is stopping, or the connection broke: %v", err)
	}
	defer leave()
	msg, err := message.Carriable(data)
	if err != nil {
		return msg, kinds.Errorf(kinds.Invalid, "message: %v", err)
	}
	return msg, nil
}
