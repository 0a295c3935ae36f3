package peer

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ListenEarly lets a socket have an address that this machine gets only later, as that of a VPN: packets
// come from then on. It is for [net.ListenConfig.Control]. If the kernel cannot do that, bind returns an error.
func ListenEarly(network, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		if strings.HasSuffix(network, "6") {
			unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
		} else {
			unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_FREEBIND, 1)
		}
	})
}
