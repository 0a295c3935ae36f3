package daemon

import (
	"context"
	"runtime"
	"slices"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/admin"
	"github.com/acpd/acpd/internal/buildinfo"
	"github.com/acpd/acpd/metrics"
)

// listMetricFamilies returns all metrics of this daemon, as docs/operate.md describes them. What
// is measured for them is measured now. It blocks as Readiness.Check does.
func (d *Daemon) listMetricFamilies(ctx context.Context) []metrics.Family {
	all := d.listMessageFamilies()
	all = append(all, d.listNetworkFamilies()...)
	all = append(all, d.listRelayFamilies()...)
	all = append(all, d.listStateFamilies(ctx)...)
	all = append(all, d.listAgentFamilies()...)
	all = append(all, d.listProcessFamilies()...)
	if d.measures.peers != nil {
		all = append(all, d.listPeerFamilies()...)
	}
	return all
}

// one returns what writes a family of one series without labels.
func one[N int | int64 | uint64 | float64](value N) func(*metrics.Text) {
	return func(t *metrics.Text) { t.Add(float64(value)) }
}

// oneKnown returns what writes a family of one series, or of none if the value is not known.
func oneKnown(value float64) func(*metrics.Text) {
	return func(t *metrics.Text) {
		if value >= 0 {
			t.Add(value)
		}
	}
}

// inAndOut returns what writes a family of two series, by direction.
func inAndOut(in, out int) func(*metrics.Text) {
	return func(t *metrics.Text) {
		t.Add(float64(in), metrics.Label{Name: "direction", Value: string(client.In)})
		t.Add(float64(out), metrics.Label{Name: "direction", Value: string(client.Out)})
	}
}

func (d *Daemon) listMessageFamilies() []metrics.Family {
	m := d.measures
	return []metrics.Family{
		{Name: "acpd_messages_total", Type: metrics.Counter, Help: "Messages, requests and replies, by direction and kind, whatever became of them.", Write: d.watch.Messages.Write},
		{Name: "acpd_calls_total", Type: metrics.Counter, Help: "Requests and messages that have an outcome: ok, or the code of the error.", Write: m.calls.WriteCounts},
		{Name: "acpd_call_duration_seconds", Type: metrics.HistogramType, Help: "Time from a request or message to its outcome.", Write: m.calls.WriteValues},
		{Name: "acpd_receipts_total", Type: metrics.Counter, Help: "Receipts for messages that came (in) and that were sent (out), by what they say.", Write: m.receipts.Write},
		{Name: "acpd_mails_total", Type: metrics.Counter, Help: "Deliveries of OACP mail, by direction and the receiver's result.", Write: m.mails.Write},
		{Name: "acpd_channel_requests_total", Type: metrics.Counter, Help: "HTTP requests about channels, by who asks and the class of the answer's status.", Write: m.channels.Write},
		{Name: "acpd_subscriber_copies_lost_total", Type: metrics.Counter, Help: "Copies of messages and events that a subscriber did not get because it reads too slowly.", Write: d.watch.LostCopies.Write},
	}
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
		{Name: "acpd_peers_trusted", Type: metrics.Gauge, Help: "Peers that are trusted.", Write: one(d.trust.Len())},
		{Name: "acpd_peers_connected", Type: metrics.Gauge, Help: "Peers that are connected.", Write: one(len(d.node.Peers()))},
		{Name: "acpd_connections", Type: metrics.Gauge, Help: "QUIC connections to peers that are open.", Write: one(conns)},
		{Name: "acpd_streams", Type: metrics.Gauge, Help: "QUIC streams that are open: those of peers that are served here (in), and those of calls and bridges (out).", Write: inAndOut(d.node.CountStreams())},
		{Name: "acpd_udp_dropped_total", Type: metrics.Counter, Help: "Packets that the UDP socket had no room to send; QUIC sends again what was in them. Linux alone counts them.", Write: one(int(d.node.CountDroppedDatagrams()))},
		{Name: "acpd_dials_total", Type: metrics.Counter, Help: "Dials that have ended, by outcome: ok if a connection is ready then, or the code of the error.", Write: d.measures.dials.Write},
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

// listRelayFamilies returns the metrics of relays, of which config.MaxRelays are in use at most. Without a
// relay they have no series.
func (d *Daemon) listRelayFamilies() []metrics.Family {
	rows := slices.DeleteFunc(d.relays.List(), func(r client.Relay) bool { return r.State == client.RelayUnused })
	each := func(add func(t *metrics.Text, r *client.Relay, name metrics.Label)) func(*metrics.Text) {
		return func(t *metrics.Text) {
			for i := range rows {
				add(t, &rows[i], metrics.Label{Name: "relay", Value: rows[i].Name})
			}
		}
	}
	return []metrics.Family{
		{Name: "acpd_relay_connected", Type: metrics.Gauge, Help: "1 if packets come and go over the relay, else 0.", Write: each(func(t *metrics.Text, r *client.Relay, name metrics.Label) {
			up := 0.0
			if r.State == client.RelayUp {
				up = 1
			}
			t.Add(up, name)
		})},
		{Name: "acpd_relay_packets_total", Type: metrics.Counter, Help: "Packets over the relay, by direction.", Write: each(func(t *metrics.Text, r *client.Relay, name metrics.Label) {
			t.Add(float64(r.PacketsIn), name, metrics.Label{Name: "direction", Value: string(client.In)})
			t.Add(float64(r.PacketsOut), name, metrics.Label{Name: "direction", Value: string(client.Out)})
		})},
		{Name: "acpd_relay_packets_dropped_total", Type: metrics.Counter, Help: "Packets that this daemon has dropped on their way to the relay or from it.", Write: each(func(t *metrics.Text, r *client.Relay, name metrics.Label) {
			t.Add(float64(r.Dropped), name)
		})},
	}
}

func (d *Daemon) listStateFamilies(ctx context.Context) []metrics.Family {
	ready := 0
	if len(d.readiness.Check(ctx)) == 0 {
		ready = 1
	}
	stateFree, stateFloor, mailFree, mailFloor := d.space.LastMeasured()
	ofDisks := func(state, mail uint64) func(*metrics.Text) {
		return func(t *metrics.Text) {
			t.Add(float64(state), metrics.Label{Name: "of", Value: "state"})
			t.Add(float64(mail), metrics.Label{Name: "of", Value: "mail"})
		}
	}
	failed := 0
	if d.reloadFailure.Load() != nil {
		failed = 1
	}
	return []metrics.Family{
		{Name: "acpd_ready", Type: metrics.Gauge, Help: "1 if /readyz says ready, else 0.", Write: one(ready)},
		{Name: "acpd_config_reload_failed", Type: metrics.Gauge, Help: "1 if config.yaml was not taken over when it was reloaded last, else 0.", Write: one(failed)},
		{Name: "acpd_disk_free_bytes", Type: metrics.Gauge, Help: "Space that is free on the disk of the state directory and of the mailboxes.", Write: ofDisks(stateFree, mailFree)},
		{Name: "acpd_disk_floor_bytes", Type: metrics.Gauge, Help: "Free space below which peers are refused what would be kept on that disk.", Write: ofDisks(stateFloor, mailFloor)},
		{Name: "acpd_store_commits_total", Type: metrics.Counter, Help: "Commits of state.db, by outcome.", Write: d.measures.commits.Write},
		{Name: "acpd_store_commit_duration_seconds", Type: metrics.HistogramType, Help: "Time of a commit of state.db, its writes included.", Write: d.measures.commitTime.Write},
		{Name: "acpd_store_commit_writes", Type: metrics.HistogramType, Help: "Writes that one commit of state.db holds.", Write: d.measures.commitWrites.Write},
	}
}

func (d *Daemon) listAgentFamilies() []metrics.Family {
	_, active, attached := d.agents.SummarizeLoad()
	open := d.delegations.CountOpen()
	return []metrics.Family{
		{Name: "acpd_agents_attached", Type: metrics.Gauge, Help: "Agents that are attached.", Write: one(attached)},
		{Name: "acpd_tasks_active", Type: metrics.Gauge, Help: "Queries and delegations on which agents here work.", Write: one(active)},
		{Name: "acpd_delegations_open", Type: metrics.Gauge, Help: "Delegations that are not over: taken from peers (in), and given to them (out).", Write: inAndOut(open.Taken, open.Given)},
		{Name: "acpd_wakes_total", Type: metrics.Counter, Help: "Messages of which a session was told to begin a turn, by outcome.", Write: d.sessions.Wakes.Write},
		{Name: "acpd_headless_runs_total", Type: metrics.Counter, Help: "Headless runs of agent programs, by state: each is reserved or refused first, and later settled or not begun.", Write: d.spending.Runs.Write},
	}
}

// listProcessFamilies returns the metrics of the process, under the names that all programs use.
func (d *Daemon) listProcessFamilies() []metrics.Family {
	usage := measureProcess()
	return []metrics.Family{
		{Name: "acpd_build_info", Type: metrics.Gauge, Help: "1; the labels say which program runs.", Write: d.writeBuildInfo},
		{Name: "process_start_time_seconds", Type: metrics.Gauge, Help: "When the daemon started, in seconds since 1970.", Write: one(float64(d.started.UnixMilli()) / 1000)},
		{Name: "process_cpu_seconds_total", Type: metrics.Counter, Help: "CPU time, user and system.", Write: oneKnown(usage.cpu)},
		{Name: "process_resident_memory_bytes", Type: metrics.Gauge, Help: "Memory that the process has in RAM.", Write: oneKnown(usage.resident)},
		{Name: "process_open_fds", Type: metrics.Gauge, Help: "Descriptors that are open.", Write: oneKnown(usage.descriptors)},
		{Name: "process_max_fds", Type: metrics.Gauge, Help: "Descriptors that the process may have.", Write: one(admin.ReadDescriptorLimit())},
		{Name: "go_goroutines", Type: metrics.Gauge, Help: "Goroutines that there are.", Write: one(usage.goroutines)},
		{Name: "go_memory_classes_heap_objects_bytes", Type: metrics.Gauge, Help: "Memory of objects that are in use or not collected yet.", Write: one(usage.heap)},
		{Name: "go_memory_classes_total_bytes", Type: metrics.Gauge, Help: "Memory that the Go runtime has from the system.", Write: one(usage.goTotal)},
		{Name: "go_gc_cycles_total", Type: metrics.Counter, Help: "Runs of the garbage collector that have ended.", Write: one(usage.gcCycles)},
	}
}

func (d *Daemon) writeBuildInfo(t *metrics.Text) {
	t.Add(1, metrics.Label{Name: "version", Value: d.options.Version}, metrics.Label{Name: "commit", Value: buildinfo.Read().Commit},
		metrics.Label{Name: "goversion", Value: runtime.Version()}, metrics.Label{Name: "goos", Value: runtime.GOOS}, metrics.Label{Name: "goarch", Value: runtime.GOARCH})
}
