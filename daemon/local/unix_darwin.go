package local

import (
	"cmp"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// makeSocketPrivate has nothing to do: macOS knows no mode of a socket before its file
// exists, and the state directory, 0700, is what keeps others out of it.
func makeSocketPrivate(_, _ string, _ syscall.RawConn) error { return nil }

// enableQuickAck has nothing to do: macOS knows no such option.
func enableQuickAck(_ *net.TCPConn) {}

// readCallerUserID asks the kernel which user connected.
func readCallerUserID(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Xucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	})
	if err = cmp.Or(err, failed); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
