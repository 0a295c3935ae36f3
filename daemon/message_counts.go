package daemon

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// came and goes count a message, log its ids and give subscribers their copies. topic
// is that of a notify.

func (d *Daemon) noteReceived(env *wire.Envelope, topic string) {
	countKind(d.count.received, env.Kind)
	if d.log.Enabled(context.Background(), slog.LevelDebug) {
		d.log.Debug("in", "kind", env.Kind, "id", env.ID, "peer", env.From.Label(), "ref", env.Ref)
	}
	d.subscribers.copy(env, topic, client.In)
}

func (d *Daemon) noteSent(env *wire.Envelope, topic string) {
	countKind(d.count.sent, env.Kind)
	if d.log.Enabled(context.Background(), slog.LevelDebug) {
		d.log.Debug("out", "kind", env.Kind, "id", env.ID, "peer", env.To.Label(), "ref", env.Ref)
	}
	d.subscribers.copy(env, topic, client.Out)
}

// messageCounts counts messages by kind.
type messageCounts struct{ received, sent map[string]*atomic.Uint64 } // the maps never change

func newMessageCounts() *messageCounts {
	c := &messageCounts{make(map[string]*atomic.Uint64), make(map[string]*atomic.Uint64)}
	for _, k := range kinds.Table() {
		c.received[k.Name], c.sent[k.Name] = new(atomic.Uint64), new(atomic.Uint64)
	}
	return c
}

func countKind(m map[string]*atomic.Uint64, kind string) {
	if n := m[kind]; n != nil {
		n.Add(1)
	}
}

// copyCounts returns what is not zero.
func copyCounts(m map[string]*atomic.Uint64) map[string]uint64 {
	all := make(map[string]uint64)
	for kind, n := range m {
		if v := n.Load(); v > 0 {
			all[kind] = v
		}
	}
	return all
}
