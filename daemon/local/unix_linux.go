package local

import (
	"cmp"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// makeSocketPrivate makes the socket file 0600 from the first moment: Linux gives it
// the mode of the socket itself, so no umask of the whole process is involved.
func makeSocketPrivate(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), 0o600) })
	return cmp.Or(err, failed)
}

// enableQuickAck makes the kernel acknowledge at once what was read (tcp(7)).
func enableQuickAck(c *net.TCPConn) {
	if raw, err := c.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) })
	}
}

// readCallerUserID asks the kernel which user connected.
func readCallerUserID(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = cmp.Or(err, failed); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
