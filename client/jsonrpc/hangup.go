package jsonrpc

import (
	"net"
	"syscall"
)

// awaitHangup returns when the other end, which has finished writing, has closed
// altogether, or when the read deadline passes. A closed socket refuses to send even
// nothing. A connection that is no socket cannot be half-closed.
func awaitHangup(conn net.Conn) {
	s, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return
	}
	raw.Read(func(fd uintptr) bool {
		return syscall.Sendto(int(fd), nil, 0, nil) == syscall.EPIPE
	})
}
