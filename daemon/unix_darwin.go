package daemon

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxSocketPath is the size of sockaddr_un's path without its zero (unix(4)).
const maxSocketPath = 103

// makePrivate has nothing to do: macOS knows no mode of a socket before its file
// exists, and the state directory, 0700, is what keeps others out of it.
func makePrivate(_, _ string, _ syscall.RawConn) error { return nil }

// acknowledge has nothing to do: macOS knows no such option.
func acknowledge(_ *net.TCPConn) {}

// peerUID asks the kernel which user connected.
func peerUID(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Xucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, failed
	}
	return int(cred.Uid), nil
}
