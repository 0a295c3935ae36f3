package transfer

import (
	"context"
	"sync"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/message"
)

// parseSlots bounds how many files are read at a time: a number in all, and one of each peer.
type parseSlots struct {
	all    chan struct{} // has as many places as files are read
	ofPeer sync.Map      // of identity.ID: chan struct{} with one place
}

func newParseSlots(n int) *parseSlots { return &parseSlots{all: make(chan struct{}, n)} }

// takeSlot waits for a slot or the end of ctx, behind those that wait longer. The caller calls
// leave to give the slot back.
func (g *parseSlots) takeSlot(ctx context.Context, who identity.ID) (leave func(), err error) {
	own, _ := g.ofPeer.LoadOrStore(who, make(chan struct{}, 1))
	var taken []chan struct{}
	leave = func() {
		for _, places := range taken {
			<-places
		}
	}
	for _, places := range []chan struct{}{own.(chan struct{}), g.all} {
		select {
		case places <- struct{}{}:
			taken = append(taken, places)
		case <-ctx.Done():
			leave()
			return nil, ctx.Err()
		}
	}
	return leave, nil
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
