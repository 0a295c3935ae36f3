package peer

import (
	"net/netip"
	"slices"
	"sort"
	"time"

	"github.com/acpd/acpd/wire"
)

// Which of the addresses that a peer names in paths are dialled. The peer is trusted, its
// addresses are not: without these rules it could have this node send packets to anybody.
const (
	maxTargetsHour   = 32   // different addresses that are dialled for one peer in an hour
	maxTargetIPs     = 3    // different public IP addresses in one round
	minTargetPort    = 1024 // below are services of the system
	targetMemory     = time.Hour
	minBroadcastBits = 31 // prefixes of IPv4 from this length have no broadcast address (RFC 3021)
)

// localNetwork is what the rules need to know of this host.
type localNetwork struct {
	prefixes []netip.Prefix   // of the interfaces, each with the host's own address in it
	own      []netip.AddrPort // at which the world sees the socket
}

// readLocalNetwork reads the prefixes of the interfaces from the system.
func readLocalNetwork() localNetwork {
	prefixes, _ := listPrefixes()
	return localNetwork{prefixes: prefixes}
}

// pathTargets holds the addresses that were dialled for a peer in the last hour, each with the
// time of the last dial.
type pathTargets map[netip.AddrPort]time.Time

// chooseTargets returns the addresses to dial in a round that begins now, of those that the
// peer names: those of an attached network first, as the way there is the shortest. They are
// counted as dialled.
func (t pathTargets) chooseTargets(named []string, local localNetwork, now time.Time) (chosen []netip.AddrPort) {
	for a, at := range t {
		if now.Sub(at) >= targetMemory {
			delete(t, a)
		}
	}
	var public []netip.Addr
	for _, text := range named[:min(len(named), wire.MaxPaths)] {
		a, err := netip.ParseAddrPort(text)
		if err != nil {
			continue
		}
		a = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
		isPublic := isPublicAddr(a.Addr())
		_, known := t[a]
		switch {
		case slices.Contains(chosen, a) || !local.isTarget(a):
			continue
		case !known && len(t) >= maxTargetsHour:
			continue
		case isPublic && !slices.Contains(public, a.Addr()) && len(public) >= maxTargetIPs:
			continue
		}
		if isPublic && !slices.Contains(public, a.Addr()) {
			public = append(public, a.Addr())
		}
		t[a] = now
		chosen = append(chosen, a)
	}
	sort.SliceStable(chosen, func(i, j int) bool { return local.distance(chosen[i]) < local.distance(chosen[j]) })
	return chosen
}

// isTarget reports whether an address that a peer names may be dialled at all: a public one, or
// a private one on an attached prefix, which is not of this host, and a port that is no
// service's of the system.
func (l localNetwork) isTarget(a netip.AddrPort) bool {
	ip := a.Addr()
	if a.Port() < minTargetPort || ip.Zone() != "" || slices.Contains(l.own, a) {
		return false
	}
	if !isPublicAddr(ip) && !isPrivateAddr(ip) {
		return false
	}
	for _, p := range l.prefixes {
		if p.Addr().Unmap() == ip || isBroadcastAddr(p, ip) {
			return false
		}
	}
	return isPublicAddr(ip) || l.distance(a) == 0
}

// distance returns 0 for an address on an attached prefix, else 1.
func (l localNetwork) distance(a netip.AddrPort) int {
	if slices.ContainsFunc(l.prefixes, func(p netip.Prefix) bool { return !p.Addr().IsLoopback() && p.Contains(a.Addr()) }) {
		return 0
	}
	return 1
}

// isBroadcastAddr reports whether ip is the first or the last address of an IPv4 prefix
// (RFC 919, and before it 4.2BSD), which every host there takes as its own.
func isBroadcastAddr(p netip.Prefix, ip netip.Addr) bool {
	if !ip.Is4() || p.Bits() >= minBroadcastBits || !p.Contains(ip) {
		return false
	}
	return !p.Contains(ip.Prev()) || !p.Contains(ip.Next())
}

// Special prefixes, of IANA's registries (RFC 6890).
var (
	sharedV4    = netip.MustParsePrefix("100.64.0.0/10") // of a carrier's NAT, and of overlays
	benchV4     = netip.MustParsePrefix("198.18.0.0/15") // of measurements, and of overlays
	protocolsV4 = netip.MustParsePrefix("192.0.0.0/24")
	thisHostV4  = netip.MustParsePrefix("0.0.0.0/8")
	reservedV4  = netip.MustParsePrefix("240.0.0.0/4")
	globalV6    = netip.MustParsePrefix("2000::/3")
	// These hold an IPv4 address, which no rule would see.
	teredoV6 = netip.MustParsePrefix("2001::/32")
	sixToV6  = netip.MustParsePrefix("2002::/16")
)

// isPrivateAddr reports whether an address is valid only on its own network.
func isPrivateAddr(ip netip.Addr) bool {
	return ip.IsPrivate() || sharedV4.Contains(ip) || benchV4.Contains(ip)
}

// isPublicAddr reports whether an address is one of the internet's, of one host.
func isPublicAddr(ip netip.Addr) bool {
	switch {
	case isPrivateAddr(ip) || !ip.IsGlobalUnicast():
		return false
	case ip.Is4():
		return !thisHostV4.Contains(ip) && !protocolsV4.Contains(ip) && !reservedV4.Contains(ip)
	}
	return globalV6.Contains(ip) && !teredoV6.Contains(ip) && !sixToV6.Contains(ip)
}
