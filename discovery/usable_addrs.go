package discovery

import (
	"net/netip"
	"slices"
)

// filterUsableAddrs returns up to 8 of the announced addresses that may be believed where the
// packet came in, those on the link first. An IPv6 link-local address holds on one
// link only, and a record does not say on which: so it is believed only of the
// sender, and gets the zone of the interface.
func (p *packet) filterUsableAddrs(announced []netip.AddrPort) []netip.AddrPort {
	var onLink, private []netip.AddrPort
	for _, a := range announced {
		ip := a.Addr()
		switch {
		case a.Port() == 0 || ip.Zone() != "" || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLoopback() && !p.nic.isLoopback():
		case ip.Is6() && ip.IsLinkLocalUnicast():
			if ip == p.src {
				onLink = append(onLink, netip.AddrPortFrom(ip.WithZone(p.nic.Name), a.Port()))
			}
		case p.nic.isOnLink(ip):
			onLink = append(onLink, a)
		case ip.IsPrivate():
			private = append(private, a)
		}
	}
	var unique []netip.AddrPort
	for _, a := range slices.Concat(onLink, private) {
		if !slices.Contains(unique, a) && len(unique) < maxAddrs {
			unique = append(unique, a)
		}
	}
	return unique
}
