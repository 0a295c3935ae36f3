package discovery

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/internal/ownwords"
)

// openInterfaceNotices opens a socket from which something can be read whenever a link or an
// address of the host has changed: rtnetlink(7).
func openInterfaceNotices() (io.ReadCloser, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, ownwords.Errorf("rtnetlink: %w", err)
	}
	const groups = unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		unix.Close(fd)
		return nil, ownwords.Errorf("rtnetlink: %w", err)
	}
	return os.NewFile(uintptr(fd), "rtnetlink"), nil
}
