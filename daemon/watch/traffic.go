package watch

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/traffic"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// serveTraffic returns messages that have passed, and those that are open.
func (s *Service) serveTraffic(ctx context.Context, c *local.Conn, p *client.TrafficParams) (any, error) {
	q, err := s.readTrafficParams(p)
	if err != nil {
		return nil, err
	}
	if err := s.Traffic.Watch(c); err != nil {
		return nil, err
	}
	q.Who = c
	a, err := s.Traffic.Read(ctx, q)
	if err != nil {
		return nil, kinds.Errorf(kinds.Cancelled, "the caller gave up")
	}
	if p.Open {
		a.Open, a.OpenMore, err = s.listOpenCalls(ctx, &q.Filter)
	}
	return a, err
}

func (s *Service) readTrafficParams(p *client.TrafficParams) (*traffic.Query, error) {
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
	peers, err := s.ResolvePeers(p.Peers, false)
	if err != nil {
		return nil, err
	}
	// Half of a line is for entries, and half for open calls.
	return &traffic.Query{
		After: p.After, Limit: cmp.Or(p.Limit, client.MaxTrafficEntries), Room: s.MaxListBytes() / 2, Wait: time.Duration(p.WaitMS) * time.Millisecond,
		Filter:   traffic.Filter{Kinds: p.Kinds, Topics: p.Topics, Threads: p.Threads, Agents: p.Agents, Peers: peers},
		Payloads: p.Payload,
	}, nil
}
