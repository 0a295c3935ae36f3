package peer

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// SocketBuffers returns how many bytes the system keeps for the socket: what has come and is not
// read, and what is not sent. Both are 0 for a socket that is not the system's.
func (n *Node) SocketBuffers() (receive, send int) {
	s, ok := n.udp.socket.(syscall.Conn)
	if !ok {
		return 0, 0
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0, 0
	}
	raw.Control(func(fd uintptr) {
		receive, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
		send, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
	})
	return receive, send
}

// CountDroppedDatagrams returns how many datagrams the socket has lost for want of room. A socket of
// another system than Linux does not say.
func (n *Node) CountDroppedDatagrams() int64 {
	s, ok := n.udp.socket.(interface{ countDropped() int64 })
	if !ok {
		return 0
	}
	return s.countDropped()
}
