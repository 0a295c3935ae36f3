package peers

import (
	"context"
	"slices"
	"sync"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/discovery"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// serveProbe dials each address of a trusted peer, its pipe and all relays at once, and returns what answers
// there.
func (s *Service) serveProbe(ctx context.Context, _ *local.Conn, p *client.ProbeParams) (any, error) {
	who, err := s.Resolve("peer", p.Peer)
	if err != nil {
		return nil, err
	}
	var entry discovery.Entry
	for _, e := range s.Addresses.List() {
		if e.ID == who.ID {
			entry = e
		}
	}
	out := &client.Probe{Addrs: []client.ProbedAddr{}}
	for _, a := range entry.Addrs[:min(len(entry.Addrs), identity.MaxAddrs)] {
		if slices.ContainsFunc(out.Addrs, func(o client.ProbedAddr) bool { return o.Addr == a.HostPort }) {
			continue // it is known from two sources
		}
		if a.Source == discovery.Worked && s.Node.StaysOnRelays() {
			continue // it is not dialled
		}
		out.Addrs = append(out.Addrs, client.ProbedAddr{Addr: a.HostPort, Source: client.AddrSource(a.Source)})
	}
	for _, link := range s.Relays.ListLinks() {
		if len(out.Addrs) < 2*identity.MaxAddrs {
			out.Addrs = append(out.Addrs, client.ProbedAddr{Addr: link, Source: client.SourceRelay})
		}
	}
	if pipe := s.Pipes.Addr(who.ID); pipe != nil {
		out.Addrs = append(out.Addrs, client.ProbedAddr{Addr: pipe.String(), Source: client.SourcePipe})
	}
	var dials sync.WaitGroup
	for i := range out.Addrs {
		dials.Go(func() {
			a := &out.Addrs[i]
			limit := kinds.ProbeDeadline
			if a.Source == client.SourcePipe {
				limit = kinds.PipeProbeDeadline
			}
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			rtt, err := s.Node.TryAddr(ctx, who.ID, a.Addr)
			a.RTTUS, a.Error = uint64(rtt.Microseconds()), err
		})
	}
	dials.Wait()
	return out, nil
}
