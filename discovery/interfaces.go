package discovery

import (
	"net"
	"net/netip"
	"slices"
)

// maxLinks bounds the interfaces in use: every one costs up to four sockets, and the
// system delivers every multicast to all of them.
const maxLinks = 32

// nic is an interface as it was at one look: another index, other flags or other
// addresses make another one.
type nic struct {
	net.Interface
	prefixes []netip.Prefix
}

func (n nic) isEqual(o nic) bool {
	return n.Index == o.Index && n.Name == o.Name && n.Flags == o.Flags && slices.Equal(n.prefixes, o.prefixes)
}

// isOnLink reports whether an address is reached directly on the interface.
func (n nic) isOnLink(ip netip.Addr) bool {
	return slices.ContainsFunc(n.prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// isLoopback reports whether only this host is on the interface. Packets there
// come from another daemon of this host.
func (n nic) isLoopback() bool { return n.Flags&net.FlagLoopback != 0 }

// hasFamily reports whether the interface has an address of a family.
func (n nic) hasFamily(v4 bool) bool {
	return slices.ContainsFunc(n.prefixes, func(p netip.Prefix) bool { return p.Addr().Is4() == v4 })
}

// firstIPv4 returns the first IPv4 address, or nil.
func (n nic) firstIPv4() net.IP {
	for _, p := range n.prefixes {
		if p.Addr().Is4() {
			return p.Addr().AsSlice()
		}
	}
	return nil
}

// interfaceWatch looks at the interfaces of the host.
type interfaceWatch struct {
	nics  []net.Interface
	addrs []netip.Prefix
}

// pollInterfaces looks, and reports whether anything is other than before.
func (w *interfaceWatch) pollInterfaces() (changed bool, err error) {
	nics, err := net.Interfaces()
	if err != nil {
		return false, err
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		return false, err
	}
	addrs := parsePrefixes(list)
	same := slices.EqualFunc(nics, w.nics, func(a, b net.Interface) bool {
		return a.Index == b.Index && a.Name == b.Name && a.Flags == b.Flags
	}) && slices.Equal(addrs, w.addrs)
	w.nics, w.addrs = nics, addrs
	return !same, nil
}

// listOwnAddrs returns the addresses of the host.
func (w *interfaceWatch) listOwnAddrs() []netip.Addr {
	own := make([]netip.Addr, 0, len(w.addrs))
	for _, p := range w.addrs {
		own = append(own, p.Addr())
	}
	return own
}

// listUsableInterfaces returns the interfaces to use, and how many there are too many: those that
// are up, have an address and can do multicast. Loopback can do it on every system
// that matters, though few report it. A daemon that listens on loopback is reached only there.
func (w *interfaceWatch) listUsableInterfaces(listen netip.Addr, include, exclude []string) (use []nic, cut int) {
	for _, i := range w.nics {
		loopback := i.Flags&net.FlagLoopback != 0
		if i.Flags&net.FlagUp == 0 || !loopback && (i.Flags&net.FlagMulticast == 0 || listen.IsLoopback()) ||
			slices.Contains(exclude, i.Name) || len(include) > 0 && !slices.Contains(include, i.Name) {
			continue
		}
		list, err := i.Addrs()
		if err != nil || len(list) == 0 {
			continue // it has gone meanwhile, or cannot be used yet: the next look sees that
		}
		if len(use) == maxLinks {
			cut++
			continue
		}
		use = append(use, nic{i, parsePrefixes(list)})
	}
	return use, cut
}

func parsePrefixes(list []net.Addr) []netip.Prefix {
	found := make([]netip.Prefix, 0, len(list))
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			found = append(found, p)
		}
	}
	return found
}

// listAnnouncedAddrs returns where a socket bound to listen is reached on the interfaces,
// addresses that hold on one link only last, those of loopback only where there is
// nothing else.
func listAnnouncedAddrs(listen netip.AddrPort, nics []nic) []netip.AddrPort {
	var wide, local, loopback []netip.AddrPort
	bound := listen.Addr().Unmap().WithZone("")
	if bound.IsLoopback() && len(nics) > 0 {
		return []netip.AddrPort{netip.AddrPortFrom(bound, listen.Port())} // one of many, and not all are listed
	}
	for _, n := range nics {
		for _, p := range n.prefixes {
			ip := p.Addr()
			switch {
			case bound.Is4() && !ip.Is4():
			case !bound.IsUnspecified() && bound != ip:
			case ip.IsLoopback():
				loopback = append(loopback, netip.AddrPortFrom(ip, listen.Port()))
			case ip.IsLinkLocalUnicast():
				local = append(local, netip.AddrPortFrom(ip, listen.Port()))
			case ip.IsGlobalUnicast():
				wide = append(wide, netip.AddrPortFrom(ip, listen.Port()))
			}
		}
	}
	if len(wide)+len(local) == 0 {
		return loopback
	}
	return append(wide, local...)
}
