package daemon

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// countAndPublishMessage counts a message, logs its ids and sends it to the subscribers that want
// it. topic is that of a notify.
func (d *Daemon) countAndPublishMessage(direction client.MessageDirection, env *wire.Envelope, topic string) {
	counts, peer := d.messages.received, env.From
	if direction == client.Out {
		counts, peer = d.messages.sent, env.To
	}
	if n := counts[env.Kind]; n != nil {
		n.Add(1)
	}
	if d.measures != nil {
		d.measures.peers.countMessage(direction, peer)
	}
	if d.log.Enabled(context.Background(), slog.LevelDebug) {
		d.log.Debug(string(direction), "kind", env.Kind, "id", env.ID, "peer", peer.Label(), "ref", env.Ref)
	}
	d.subscribers.sendMessage(env, topic, direction)
}

// messageCounts counts messages by kind.
type messageCounts struct{ received, sent map[string]*atomic.Uint64 } // the maps never change

func newMessageCounts() *messageCounts {
	c := &messageCounts{make(map[string]*atomic.Uint64), make(map[string]*atomic.Uint64)}
	for _, k := range kinds.ListKinds() {
		c.received[k.Name], c.sent[k.Name] = new(atomic.Uint64), new(atomic.Uint64)
	}
	return c
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
