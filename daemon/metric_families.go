package daemon

import (
	"context"
	"slices"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/daemon/admin"
	"github.com/acpd/acpd/daemon/measures"
	"github.com/acpd/acpd/metrics"
)

// listMetricFamilies returns all metrics of this daemon, as docs/operate.md describes them. What
// is measured for them is measured now. It blocks as Readiness.Check does.
func (d *Daemon) listMetricFamilies(ctx context.Context) []metrics.Family {
	return slices.Concat(
		d.watch.ListFamilies(), d.measures.ListFamilies(), d.listNetworkFamilies(), d.relays.ListFamilies(), d.readiness.ListFamilies(ctx),
		d.config.ListFamilies(), d.space.ListFamilies(), d.agents.ListFamilies(), d.sessions.ListFamilies(), d.spending.ListFamilies(), d.kept.ListFamilies(),
		admin.ListProcessFamilies(d.options.Version, d.started),
	)
}

func (d *Daemon) listNetworkFamilies() []metrics.Family {
	totals := d.budget.ListTotals()
	conns := int64(0)
	for _, t := range totals {
		if t.Row.Name == budget.Connections.Name {
			conns = t.Held
		}
	}
	eachRow := func(value func(budget.Total) (float64, bool)) func(*metrics.Text) {
		return func(t *metrics.Text) {
			for _, total := range totals {
				if v, ok := value(total); ok {
					t.Add(v, metrics.Label{Name: "row", Value: total.Row.Name})
				}
			}
		}
	}
	return []metrics.Family{
		{Name: "acpd_peers_trusted", Type: metrics.Gauge, Help: "Peers that are trusted.", Write: metrics.One(d.trust.Len())},
		{Name: "acpd_peers_connected", Type: metrics.Gauge, Help: "Peers that are connected.", Write: metrics.One(len(d.node.Peers()))},
		{Name: "acpd_connections", Type: metrics.Gauge, Help: "QUIC connections to peers that are open.", Write: metrics.One(conns)},
		{Name: "acpd_streams", Type: metrics.Gauge, Help: "QUIC streams that are open: those of peers that are served here (in), and those of calls and bridges (out).", Write: measures.InAndOut(d.node.CountStreams())},
		{Name: "acpd_udp_dropped_total", Type: metrics.Counter, Help: "Packets that the UDP socket had no room to send; QUIC sends again what was in them. Linux alone counts them.", Write: metrics.One(int(d.node.CountDroppedDatagrams()))},
		{Name: "acpd_budget_refusals_total", Type: metrics.Counter, Help: "What peers were refused, by the row of the budget.", Write: eachRow(func(t budget.Total) (float64, bool) {
			return float64(t.Refused), true
		})},
		{Name: "acpd_budget_used_ratio", Type: metrics.Gauge, Help: "How much of the row all peers together hold, as part of what they may hold.", Write: eachRow(func(t budget.Total) (float64, bool) {
			return float64(t.Held) / float64(t.Row.All), t.Row.All > 0
		})},
		{Name: "acpd_budget_peer_used_ratio", Type: metrics.Gauge, Help: "How much of the row the peer that holds most has, as part of what one peer may hold.", Write: eachRow(func(t budget.Total) (float64, bool) {
			return float64(t.Most) / float64(t.Row.Peer), t.Row.Peer > 0
		})},
	}
}
