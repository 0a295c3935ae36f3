package peer

import (
	"net"
	"net/netip"
	"strconv"
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
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		switch ip := prefix.Addr(); {
		case udp.IP.To4() != nil && !ip.Is4(): // bound to IPv4 alone
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
