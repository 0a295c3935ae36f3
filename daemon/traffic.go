package daemon

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/traffic"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// setHistory has messages kept while nobody watches, or not.
func (d *Daemon) setHistory(history config.Switch) {
	kept := traffic.History
	if history == config.Off {
		kept = traffic.Bounds{}
	}
	d.traffic.SetHistory(kept)
}

// findPetname returns the petname of a trusted peer, "" of any other.
func (d *Daemon) findPetname(id identity.ID) string {
	p, _ := d.trust.FindPeer(id)
	return p.Name
}

// serveTraffic returns messages that have passed, and those that are open.
func (d *Daemon) serveTraffic(ctx context.Context, s *local.Conn, p *client.TrafficParams) (any, error) {
	q, err := d.readTrafficParams(p)
	if err != nil {
		return nil, err
	}
	if err := d.traffic.Watch(s, p.Payload); err != nil {
		return nil, err
	}
	q.Who = s
	a, err := d.traffic.Read(ctx, q)
	if err != nil {
		return nil, explainContextCause(err)
	}
	if p.Open {
		a.Open, a.OpenMore, err = d.listOpenCalls(ctx, &q.Filter)
	}
	return a, err
}

func (d *Daemon) readTrafficParams(p *client.TrafficParams) (*traffic.Query, error) {
	for _, list := range []struct {
		name  string
		items int
	}{{"kinds", len(p.Kinds)}, {"topics", len(p.Topics)}, {"peers", len(p.Peers)}, {"threads", len(p.Threads)}, {"agents", len(p.Agents)}} {
		if list.items > client.MaxTrafficFilter {
			return nil, kinds.Errorf(kinds.Invalid, "%s: %d are too many: at most %d", list.name, list.items, client.MaxTrafficFilter)
		}
	}
	most := uint64(client.MaxTrafficWait.Milliseconds())
	switch {
	case p.Limit < 0 || p.Limit > client.MaxTrafficEntries:
		return nil, kinds.Errorf(kinds.Invalid, "limit: %d: expected 1 to %d", p.Limit, client.MaxTrafficEntries)
	case p.WaitMS > most:
		return nil, kinds.Errorf(kinds.Invalid, "wait_ms: %d: at most %d; call again to wait longer", p.WaitMS, most)
	}
	all := kinds.ListNames(kinds.Sent)
	for _, kind := range p.Kinds {
		if !slices.Contains(all, kind) {
			return nil, kinds.Errorf(kinds.Invalid, "kinds: %.64q: %s", kind, identity.FormatSuggestion(kind, all, "expected some of "+strings.Join(all, ", ")))
		}
	}
	peers, err := d.resolvePeers(p.Peers, false)
	if err != nil {
		return nil, err
	}
	// Half of a line is for entries, and half for open calls.
	return &traffic.Query{
		After: p.After, Limit: cmp.Or(p.Limit, client.MaxTrafficEntries), Room: d.maxListBytes() / 2, Wait: time.Duration(p.WaitMS) * time.Millisecond,
		Filter:   traffic.Filter{Kinds: p.Kinds, Topics: p.Topics, Threads: p.Threads, Agents: p.Agents, Peers: peers},
		Payloads: p.Payload,
	}, nil
}
