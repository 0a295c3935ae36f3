package peer

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
)

// HasAddr reports whether this machine has an address at the moment, or its interfaces cannot be listed.
func HasAddr(ip netip.Addr) bool {
	if ip.IsUnspecified() || ip.IsLoopback() {
		return true
	}
	prefixes, err := listPrefixes()
	return err != nil || slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Addr() == ip.Unmap().WithZone("") })
}

// listPrefixes returns the prefixes of the interfaces, each with this host's own address in it.
func listPrefixes() (prefixes []netip.Prefix, err error) {
	addrs, err := net.InterfaceAddrs()
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			prefixes = append(prefixes, p)
		}
	}
	return prefixes, err
}

// hasOwnAddr reports whether this machine has the address on which the socket listens.
func (n *Node) hasOwnAddr() bool {
	udp, ok := n.Addr().(*net.UDPAddr)
	return !ok || n.cfg.Conn != nil || HasAddr(udp.AddrPort().Addr())
}

// Hints that follow the socket's address if the machine does not have it.
const (
	absentAddr   = "is not an address of this machine now, and this daemon sends only from that one"
	absentRemedy = "start what brings it, or choose another one with listen in config.yaml or --listen"
)

// LocalAddrs returns the addresses at which other daemons may reach the socket, as
// host:port. If it listens on all, these are the addresses of the interfaces that are up;
// those of loopback only if there are no others.
func (n *Node) LocalAddrs() []string {
	udp, ok := n.Addr().(*net.UDPAddr)
	if !ok {
		return nil
	}
	port := strconv.Itoa(udp.Port)
	if !udp.IP.IsUnspecified() {
		return []string{udp.String()}
	}
	var found, loopback []string
	prefixes, _ := listPrefixes()
	for _, p := range prefixes {
		switch ip := p.Addr(); {
		case udp.IP.To4() != nil && !ip.Is4(): // bound only to IPv4
		case ip.IsLoopback():
			loopback = append(loopback, net.JoinHostPort(ip.String(), port))
		case ip.IsGlobalUnicast():
			found = append(found, net.JoinHostPort(ip.String(), port))
		}
	}
	if len(found) == 0 {
		return loopback
	}
	return found
}
