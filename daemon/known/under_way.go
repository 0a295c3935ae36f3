package known

import (
	"sync"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// messagesUnderWay holds who sent the messages that are being taken up: a message is among them
// before anything else knows it. Package peer bounds how many there are.
type messagesUnderWay struct {
	mu   sync.Mutex // guards byID
	byID map[wire.MessageID]underWay
}

// underWay says who sent a message, and how many times it is being taken up: repeats may come at once.
type underWay struct {
	from  identity.ID
	times int
}

func newMessagesUnderWay() *messagesUnderWay {
	return &messagesUnderWay{byID: make(map[wire.MessageID]underWay)}
}

// begin enters a message, unless one of another peer with its id is under way, or known by find. If
// it returns true, the caller calls end.
func (x *messagesUnderWay) begin(from identity.ID, id wire.MessageID, find func(wire.MessageID) (identity.ID, bool)) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	u, ok := x.byID[id]
	if !ok {
		u.from = from
		if other, known := find(id); known {
			u.from = other
		}
	}
	if u.from != from {
		return false
	}
	u.times++
	x.byID[id] = u
	return true
}

func (x *messagesUnderWay) end(id wire.MessageID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	u := x.byID[id]
	if u.times--; u.times > 0 {
		x.byID[id] = u
	} else {
		delete(x.byID, id)
	}
}
