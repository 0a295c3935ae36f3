package transfer

import (
	"context"
	"slices"
	"sync"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/message"
)

// parseSlots bounds how many files are read at a time: places in all, and one of each peer. It
// grants slots in the order of the requests.
type parseSlots struct {
	places int

	mu      sync.Mutex // guards what follows
	busy    map[identity.ID]bool
	waiting []*slotRequest
}

type slotRequest struct {
	peer    identity.ID
	granted chan struct{} // closed when the slot is granted
}

// takeSlot waits for a slot or the end of ctx. The caller calls leave to give the slot back.
func (g *parseSlots) takeSlot(ctx context.Context, who identity.ID) (leave func(), err error) {
	v := &slotRequest{who, make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, v)
	g.grantSlots()
	g.mu.Unlock()
	leave = func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.busy, who)
		g.grantSlots()
	}
	select {
	case <-v.granted:
		return leave, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	i := slices.Index(g.waiting, v)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	g.mu.Unlock()
	if i < 0 { // it was granted just now
		leave()
	}
	return nil, ctx.Err()
}

// grantSlots grants the slots that are free. The caller holds g.mu.
func (g *parseSlots) grantSlots() {
	if g.busy == nil {
		g.busy = make(map[identity.ID]bool)
	}
	g.waiting = slices.DeleteFunc(g.waiting, func(v *slotRequest) bool {
		isFree := len(g.busy) < g.places && !g.busy[v.peer]
		if isFree {
			g.busy[v.peer] = true
			close(v.granted)
		}
		return isFree
	})
}

// parseArrivedMessage reads a message that has come. A hostile file takes up to 40 MiB of memory
// and half a second to read, so few are read at a time.
func (m *Mailer) parseArrivedMessage(ctx context.Context, from identity.ID, data []byte) (message.Message, error) {
	leave, err := m.parsing.takeSlot(ctx, from)
	if err != nil {
		return message.Message{}, kinds.Errorf(kinds.Cancelled, "the daemon is stopping, or the connection broke: %v", err)
	}
	defer leave()
	msg, err := message.ParseCarriableMessage(data)
	if err != nil {
		return msg, kinds.Errorf(kinds.Invalid, "message: it is not one that can be carried: acpctl oacp validate says why")
	}
	return msg, nil
}
