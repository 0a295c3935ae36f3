package peer

import (
	"net"
	"net/netip"
	"strconv"
)

// LocalAddrs returns where others may reach the socket, as host:port: its own
// address, or where it listens on all, those of the interfaces that are up;
// loopback only where there is nothing else.
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
