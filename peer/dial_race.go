package peer

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

// race dials the legs of all routes, and calls try with each. It returns nil as soon as one call
// does, else the failure that says most. If nothing was heard at all, that names every leg, and in any
// case the links that carry nothing. All calls have returned then.
func (n *Node) race(ctx context.Context, id identity.ID, routes []route, try func(context.Context, leg) *dialFailure) *dialFailure {
	delay := func(i int) time.Duration { return routes[i].delay }
	verdict := raceCalls(ctx, len(routes), delay, func(ctx context.Context, i int) *dialFailure {
		legs, err := routes[i].resolve(ctx)
		if err != nil {
			return &dialFailure{Error: n.newUnreachableError(id, kinds.DeliveredNo, "address %s: %v", routes[i].text, err), memory: shareVerdict}
		}
		return raceCalls(ctx, len(legs), stagger, func(ctx context.Context, j int) *dialFailure { return try(ctx, legs[j]) })
	})
	switch {
	case verdict == nil || verdict.Code != kinds.Unreachable:
	case verdict.isSilent:
		verdict.Error = n.newSilenceError(id, verdict.silence)
	default:
		told := *verdict.Error
		told.Message = verdict.silence.addImpeded(told.Message)
		verdict.Error = &told
	}
	return verdict
}

// stagger returns when the i-th address of a host name is dialled.
func stagger(i int) time.Duration { return time.Duration(i) * dialStagger }

// raceCalls calls try for 0 to n-1, each after its delay, as [Node.race] does.
func raceCalls(ctx context.Context, n int, delay func(i int) time.Duration, try func(ctx context.Context, i int) *dialFailure) *dialFailure {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	results := make(chan *dialFailure, n)
	for i := range n {
		running.Go(func() {
			_ = pace.Sleep(ctx, delay(i))
			results <- try(ctx, i)
		})
	}
	var verdict *dialFailure // of the failures so far, the one that says most
	for range n {
		f := <-results
		if f == nil {
			return nil
		}
		switch {
		case verdict == nil:
			verdict = f
		case f.rank() > verdict.rank():
			f.silence, verdict.silence = verdict.silence, f.silence // in the order in which they came
			f.silence.add(verdict.silence)
			verdict = f
		default:
			verdict.silence.add(f.silence)
			if f.isSilent && verdict.isSilent {
				verdict.memory = max(verdict.memory, f.memory)
			}
		}
		if f.refused {
			break // the peer's word is final: no other address will say otherwise
		}
	}
	return verdict
}

// rank orders failures by how much they explain: an answer of the peer outranks one of the command that leads to it,
// which outranks one of the network, which outranks silence.
func (f *dialFailure) rank() int {
	switch {
	case f.refused:
		return 5
	case f.Code == kinds.NotTrusted, f.Code == kinds.IncompatibleVersion, f.Code == kinds.Overloaded:
		return 4
	case f.Code == kinds.IdentityConflict:
		return 3
	case f.isSilent:
		return 0
	case f.isOfPipe:
		return 2
	}
	return 1
}

// resolveAddr returns the addresses of host:port, at least one and at most maxDialIPs. It
// looks a host name up.
func resolveAddr(ctx context.Context, addr string) ([]*net.UDPAddr, error) {
	if ap, err := netip.ParseAddrPort(addr); err == nil {
		return []*net.UDPAddr{net.UDPAddrFromAddrPort(ap)}, nil
	}
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	all := make([]*net.UDPAddr, min(len(ips), maxDialIPs))
	for i := range all {
		all[i] = net.UDPAddrFromAddrPort(netip.AddrPortFrom(ips[i].Unmap(), uint16(port)))
	}
	return all, nil
}
