package daemon

import (
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/traffic"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/metrics"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// messageCounts counts messages and replies by direction and kind.
type messageCounts struct{ *metrics.Counts }

func newMessageCounts() messageCounts {
	kind := metrics.ClosedLabel{Name: "kind"}
	for _, k := range kinds.ListKinds() {
		kind.Values = append(kind.Values, k.Name)
	}
	return messageCounts{metrics.NewCounts(metrics.ClosedLabel{Name: "direction", Values: []string{string(client.In), string(client.Out)}}, kind)}
}

func (c messageCounts) count(_ *peer.Passing, env *wire.Envelope, inbound bool) {
	c.Add(1, string(traffic.DirectionOf(inbound)), env.Kind)
}

// listNonZero returns the counts by kind that are not zero.
func (c messageCounts) listNonZero(direction client.MessageDirection) map[string]uint64 {
	all := make(map[string]uint64)
	for _, k := range kinds.ListKinds() {
		if n := c.Get(string(direction), k.Name); n > 0 {
			all[k.Name] = n
		}
	}
	return all
}
