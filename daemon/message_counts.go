package daemon

import (
	"sync/atomic"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// messageCounts counts messages by kind.
type messageCounts struct{ received, sent map[string]*atomic.Uint64 } // the maps never change

func newMessageCounts() *messageCounts {
	c := &messageCounts{make(map[string]*atomic.Uint64), make(map[string]*atomic.Uint64)}
	for _, k := range kinds.ListKinds() {
		c.received[k.Name], c.sent[k.Name] = new(atomic.Uint64), new(atomic.Uint64)
	}
	return c
}

// count counts a message.
func (c *messageCounts) count(env *wire.Envelope, _ string, direction client.MessageDirection) {
	counts := c.received
	if direction == client.Out {
		counts = c.sent
	}
	if n := counts[env.Kind]; n != nil {
		n.Add(1)
	}
}

// listNonZeroCounts returns what is not zero.
func listNonZeroCounts(m map[string]*atomic.Uint64) map[string]uint64 {
	all := make(map[string]uint64)
	for kind, n := range m {
		if v := n.Load(); v > 0 {
			all[kind] = v
		}
	}
	return all
}
